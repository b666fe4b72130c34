#pragma once

#include <cstddef>
#include <span>

#include "stretto/base/data_type.h"

namespace stretto {

/// The arithmetic with which a collective moves models that stand: arrays of one type and length, number by number. Any
/// thread; allocates nothing.
struct ModelMath {
  /// model = sum / members; `model` may be `sum`.
  void (*mean)(DataType type, std::span<std::byte> model, std::span<const std::byte> sum, double members) = nullptr;
  /// model = stands + (model − base).
  void (*put_on)(DataType type, std::span<std::byte> model, std::span<const std::byte> stands,
                 std::span<const std::byte> base) = nullptr;
};

}  // namespace stretto
