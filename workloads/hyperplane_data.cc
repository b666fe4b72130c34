#include "workloads/hyperplane_data.h"

#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "stretto/base/machine/process_limits.h"
#include "stretto/base/random.h"

namespace stretto {

MappedMemory::~MappedMemory() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

Result<MappedMemory> MappedMemory::allocate(std::size_t bytes, std::string_view purpose) {
  if (const MemoryBudget left = available_memory(); bytes > left.bytes) {
    return Error{Errc::unavailable, text(purpose, " needs ", format_bytes(bytes), " of memory, and ",
                                         format_bytes(left.bytes), " are left (", left.limit, ")")};
  }
  void* start = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) {
    return Error{Errc::unavailable,
                 text(purpose, " needs ", format_bytes(bytes), " of memory: ", std::strerror(errno))};
  }
  madvise(start, bytes, MADV_HUGEPAGE);  // only advice: works without
  return MappedMemory({static_cast<std::byte*>(start), bytes});
}

void MappedMemory::make_read_only() {
  STRETTO_CHECK(mprotect(bytes_.data(), bytes_.size(), PROT_READ) == 0, std::strerror(errno));
}

namespace {

// Streams of the seed: one for the coefficients, two for each row, test rows beginning where no training row can be.
constexpr std::uint64_t kCoefficientStream = 0;
constexpr std::uint64_t kFirstTrainStream = 1;
constexpr std::uint64_t kFirstTestStream = std::uint64_t{1} << 33;
constexpr std::uint64_t kNoiseStreams = std::uint64_t{1} << 34;  // added to the row's

constexpr std::size_t kDimensions = HyperplaneDataset::kDimensions;
constexpr std::size_t kWords = kDimensions / sizeof(std::uint64_t);

// The levels 0 … 255 lie evenly around 0 with variance 1: the step is √(12 / (256² − 1)).
constexpr float kStep = 0.013531750f;
float value_of(std::uint8_t level) {
  return (static_cast<float>(level) - 127.5f) * kStep;
}

// SplitMix64 from a key that is drawn for the row: 300 million coordinates take a tenth of a second instead of one.
void draw_row(std::uint64_t seed, std::uint64_t stream, std::uint8_t* levels) {
  const std::uint64_t key = random_bits(seed, stream, 0);
  for (std::uint64_t word = 0; word < kWords; ++word) {
    std::uint64_t bits = key + (word + 1) * 0x9e3779b97f4a7c15u;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
    bits ^= bits >> 31;
    std::memcpy(levels + word * sizeof bits, &bits, sizeof bits);
  }
}

// Σ a·x over independent partial sums, which a compiler may keep in vector registers without changing the result.
double dot(const std::uint8_t* levels, const float* a) {
  constexpr std::size_t kLanes = 16;
  std::array<float, kLanes> partial{};
  for (std::size_t i = 0; i < kDimensions; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) partial[lane] += value_of(levels[i + lane]) * a[i + lane];
  }
  double sum = 0;
  for (const float p : partial) sum += p;
  return sum;
}

}  // namespace

HyperplaneDataset::HyperplaneDataset(std::uint64_t seed, std::uint32_t num_train, MappedMemory memory)
    : Dataset("hyperplane", std::vector<std::uint32_t>(num_train, 1), kTestPoints), memory_(std::move(memory)) {
  Random draw(seed, kCoefficientStream);
  for (std::size_t i = 0; i < kDimensions; ++i) coefficients_.push_back(draw.normal());
  const std::vector<float> a(coefficients_.begin(), coefficients_.end());
  auto* levels = reinterpret_cast<std::uint8_t*>(memory_.bytes().data());
  const std::size_t rows = std::size_t{num_train} + kTestPoints;
  for (std::size_t row = 0; row < rows; ++row, levels += kDimensions) {
    const std::uint64_t stream = row < num_train ? kFirstTrainStream + row : kFirstTestStream + (row - num_train);
    draw_row(seed, stream, levels);
    const double noise = Random(seed, stream + kNoiseStreams).normal();
    targets_.push_back(static_cast<float>(dot(levels, a.data()) + kNoise * noise));
  }
  memory_.make_read_only();
}

void HyperplaneDataset::copy_point(Split split, std::uint32_t point, float* x) const {
  const auto* levels = reinterpret_cast<const std::uint8_t*>(memory_.bytes().data()) + row(split, point) * kDimensions;
  for (std::size_t i = 0; i < kDimensions; ++i) x[i] = value_of(levels[i]);
}

Result<std::shared_ptr<const Dataset>> generate_hyperplane(const DatasetOptions& options) {
  const std::uint32_t points =
      options.hyperplane_points == 0 ? HyperplaneDataset::kTrainPoints : options.hyperplane_points;
  const std::size_t bytes = (std::size_t{points} + HyperplaneDataset::kTestPoints) * kDimensions;
  auto memory = MappedMemory::allocate(bytes, text("hyperplane with ", points, " points"));
  if (!memory) return memory.error();
  return std::shared_ptr<const Dataset>(
      std::make_shared<const HyperplaneDataset>(options.seed, points, std::move(*memory)));
}

}  // namespace stretto
