#pragma once

namespace stretto {

/// The way in which the ranks of a simulated job meet.
enum class Over {
  messages,
  board,   ///< all ranks meet at one
  boards,  ///< at several, with a schedule between them
};

}  // namespace stretto
