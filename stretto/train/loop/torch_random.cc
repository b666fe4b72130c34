#include "stretto/train/loop/torch_random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/empty.h>

#include <cstring>
#include <mutex>

#include "stretto/base/error.h"

namespace stretto {
namespace {

constexpr std::uint64_t kLargest = 1 << 20;  // bytes; a Mersenne twister has 5,056

}  // namespace

std::vector<std::uint64_t> random_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  const at::Tensor bytes = generator.get_state();
  // The number of bytes comes first: they need not fill the last number.
  std::vector<std::uint64_t> state(1 + (bytes.nbytes() + 7) / 8);
  state[0] = bytes.nbytes();
  std::memcpy(&state[1], bytes.data_ptr(), bytes.nbytes());
  return state;
}

void set_random_state(std::span<const std::uint64_t> state) {
  if (state.empty() || state[0] > kLargest || state.size() != 1 + (state[0] + 7) / 8) {
    throw UsageError("the state of the random numbers in a checkpoint is truncated");
  }
  at::Tensor bytes = at::empty({static_cast<std::int64_t>(state[0])}, at::TensorOptions().dtype(at::kByte));
  std::memcpy(bytes.data_ptr(), &state[1], state[0]);
  try {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const std::lock_guard lock(generator.mutex());
    generator.set_state(bytes);
  } catch (const c10::Error& error) {
    throw UsageError(text("the state of the random numbers in a checkpoint: ", error.what_without_backtrace()));
  }
}

}  // namespace stretto
