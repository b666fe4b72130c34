// Stands for libpmix.so.2: keeps one value, for this process alone. FAKE_PMIX says how it answers: "late" begins after
// a second and a half, a number is what PMIx_Init returns.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

namespace {

struct Value {
  std::uint16_t type;
  char* string;
  void* more[2];
};
constexpr int kNotFound = -46;
constexpr std::uint16_t kString = 3;
char* left = nullptr;  // what has been put

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): PMIx has named them.
extern "C" {

int PMIx_Init(void* process, void*, std::size_t) {
  const char* const given = std::getenv("FAKE_PMIX");
  const std::string how = given != nullptr ? given : "";
  if (how == "late") std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  std::memcpy(process, "fake", sizeof "fake");
  std::free(left);
  left = nullptr;
  return std::atoi(how.c_str());
}

int PMIx_Put(std::uint8_t, const char*, const Value* value) {
  std::free(left);
  left = ::strdup(value->string);
  return 0;
}

int PMIx_Commit() {
  return 0;
}

int PMIx_Get(const void*, const char*, const void*, std::size_t, Value** value) {
  if (left == nullptr) return kNotFound;
  *value = static_cast<Value*>(std::calloc(1, sizeof(Value)));
  (*value)->type = kString;
  (*value)->string = ::strdup(left);
  return 0;
}

int PMIx_Finalize(const void*, std::size_t) {
  std::free(left);
  left = nullptr;
  return 0;
}

const char* PMIx_Error_string(int) {
  return "UNREACHABLE";
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
