#pragma once

#include <span>
#include <string>

#include "stretto/train/replica/replica.h"

namespace stretto {

/// The properties of a rank on which the bits of its steps depend beside its numbers. Sums over the ranks are the same
/// on every processor; a replica's own steps are made by the library that it computes with.
struct Arithmetic {
  std::string host;          ///< of the rank, as it calls itself
  std::string architecture;  ///< "x86_64"
  LibraryCode library;       ///< the replica's

  /// Of a rank of this process.
  static Arithmetic here(const LibraryCode& library);
  /// As a text, and back.
  std::string encoded() const;
  static Arithmetic decoded(const std::string& text);
  /// The same without the host.
  std::string without_host() const;
};

/// LibraryCode::name of Torch, by its own word for the code it has chosen: "AVX2" and "AVX512" give the same bits, and
/// "DEFAULT", which multiplies and adds in two steps, others.
std::string torch_code(const std::string& capability);

/// A line for the start of a job: why replicas of these ranks may part, on which hosts, and what helps. Empty: nothing
/// makes them part for certain. `ranks`: by rank.
std::string why_replicas_may_part(std::span<const Arithmetic> ranks);
/// The same for replicas that have parted: numbers of threads count, too, on which some sums depend.
std::string why_replicas_have_parted(std::span<const Arithmetic> ranks);

}  // namespace stretto
