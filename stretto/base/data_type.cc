#include "stretto/base/data_type.h"

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
  }
  return "unknown reduction";
}

}  // namespace stretto
