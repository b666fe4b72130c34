#include "stretto/base/data_type.h"

#include "stretto/base/error.h"

namespace stretto {

const char* name_of(DataType type) {
  switch (type) {
    case DataType::float32: return "float32";
    case DataType::float64: return "float64";
    case DataType::int32: return "int32";
    case DataType::int64: return "int64";
    case DataType::bfloat16: return "bfloat16";
    case DataType::float16: return "float16";
  }
  return "unknown type";
}

const char* name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return "sum";
    case ReduceOp::min: return "min";
    case ReduceOp::max: return "max";
    case ReduceOp::bit_and: return "bit_and";
  }
  return "unknown reduction";
}

void check_reduction(DataType type, ReduceOp op) {
  if (reduces(type, op)) return;
  throw UsageError(text(name_of(op), " of ", name_of(type), ": expected int32 or int64, whose bits mean something"));
}

std::uint64_t checked_bytes(DataType type, std::uint64_t count, std::uint64_t times) {
  if (times == 0 || count <= kMaxArrayBytes / size_of(type) / times) return count * times * size_of(type);
  const std::string each = times == 1 ? "" : text(" for each of ", times, " ranks");
  throw UsageError(
      text(count, ' ', name_of(type), each, " are too many: an array has at most ", kMaxArrayBytes, " bytes"));
}

}  // namespace stretto
