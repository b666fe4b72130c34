#include "python/binding/py_collectives.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <tuple>
#include <vector>

#include "python/binding/interpreter.h"
#include "stretto/base/error.h"
#include "stretto/collective/plain.h"
#include "stretto/engine/driver.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stretto::python {
namespace {

/// Bytes of the pieces in which arrays go: the smallest one that holds what is left.
constexpr std::array<std::size_t, 3> kPieces{512, 32 << 10, 2 << 20};

constexpr std::size_t kWords = 32;  // of a text that ranks compare
constexpr const char* kAfterFailure = "a collective after a failure: expected no more of them";
constexpr Duration kSilence = std::chrono::seconds(10);
constexpr Duration kLookEvery = std::chrono::milliseconds(100);  // whether there is something to tell
constexpr Duration kAnswersWithin = std::chrono::milliseconds(200);

std::size_t piece_for(std::size_t bytes) {
  const auto fits = std::ranges::find_if(kPieces, [&](std::size_t piece) { return piece >= bytes; });
  return fits != kPieces.end() ? *fits : kPieces.back();
}

/// Calls `work` with an element of the type.
template <class Work>
void with_type(DataType type, Work work) {
  if (type == DataType::float32) return work(float{});
  if (type == DataType::float64) return work(double{});
  if (type == DataType::int32) return work(std::int32_t{});
  if (type == DataType::int64) return work(std::int64_t{});
  return type == DataType::bfloat16 ? work(BFloat16{}) : work(Float16{});
}

}  // namespace

struct PyCollectives::Made {
  explicit Made(RankContext& context)
      : world(context.world()),
        engine(world.engine()),
        uninterrupted(world.driver()),
        driver(uninterrupted, look_for_signals),
        ranks(context.size()),
        texts(engine, DataType::int64, kWords),
        all_texts(kWords * static_cast<std::size_t>(ranks)) {}

  /// Runs a round until it is over, however long that takes, and says who is missing.
  template <class Run>
  void insist(Collective& collective, Run run) {
    if (failed) throw UsageError(kAfterFailure);
    failed = true;
    TimePoint tell_at = driver.deadline(kSilence);
    for (;;) {
      const Result<void> done = run(std::min(tell_at, driver.deadline(kLookEvery)));
      if (done) break;
      if (done.error().code != Errc::timeout) throw Failure(done.error());
      if (driver.clock().now() < tell_at) continue;
      tell_at = driver.deadline(kSilence);
      const std::string missing = collective.who_is_missing(driver, kAnswersWithin);
      with_python([&] { nb::module_::import_("stretto._collectives").attr("tell")(missing); });
    }
    failed = false;
  }

  Allreduce& sum_of(DataType type, ReduceOp op, std::size_t bytes) {
    auto& made = sums[{type, op, bytes}];
    if (!made) made = std::make_unique<Allreduce>(engine, type, bytes / size_of(type), op, kRegistered);
    return *made;
  }
  Broadcast& broadcast_from(int root, std::size_t bytes) {
    auto& made = broadcasts[{root, bytes}];
    if (!made) made = std::make_unique<Broadcast>(engine, DataType::int64, bytes / sizeof(std::int64_t), root);
    return *made;
  }
  void abort(const std::string& reason) {
    const Error why{Errc::aborted, reason, engine.rank()};
    texts.abort(uninterrupted, why);
    for (const auto& [_, sum] : sums) sum->abort(uninterrupted, why);
    for (const auto& [_, broadcast] : broadcasts) broadcast->abort(uninterrupted, why);
  }

  static constexpr AllreduceOptions kRegistered{.registered = true};
  World& world;
  Engine& engine;
  Driver& uninterrupted;
  InterruptibleDriver driver;
  const int ranks;
  Allgather texts;
  // Belong to the rounds, which an interrupted call leaves under way.
  std::array<std::int64_t, kWords> text{};
  std::vector<std::int64_t> all_texts;
  std::vector<std::int64_t> words = std::vector<std::int64_t>(kPieces.back() / sizeof(std::int64_t));
  std::map<std::tuple<DataType, ReduceOp, std::size_t>, std::unique_ptr<Allreduce>> sums;
  std::map<std::pair<int, std::size_t>, std::unique_ptr<Broadcast>> broadcasts;
  bool failed = false;  // or a call is under way
};

PyCollectives::PyCollectives(std::shared_ptr<PyJob> job)
    : job_(std::move(job)), made_(std::make_shared<Made>(job_->context())) {}

PyCollectives::~PyCollectives() = default;

PyCollectives::Made& PyCollectives::made() {
  if (!made_) throw UsageError("a collective after shutdown(): expected none");
  made_->world.require_own_process();
  return *made_;
}

void PyCollectives::agree(const std::string& what) {
  Made& made = this->made();
  if (made.failed) throw UsageError(kAfterFailure);
  made.text.fill(0);
  std::memcpy(made.text.data(), what.data(), std::min(what.size(), sizeof(made.text) - 1));
  made.insist(made.texts,
              [&](TimePoint deadline) { return made.texts.run(made.driver, deadline, made.text, made.all_texts); });
  const auto text_of = [&](int rank) {
    return std::string(reinterpret_cast<const char*>(&made.all_texts[kWords * static_cast<std::size_t>(rank)]));
  };
  for (int rank = 1; rank < made.ranks; ++rank) {
    if (text_of(rank) == text_of(0)) continue;
    throw UsageError(text("rank ", rank, " has called ", text_of(rank), ", rank 0 ", text_of(0),
                          ": expected the same collective, of the same shape and type, on all ranks"));
  }
}

void PyCollectives::allreduce(DataType type, ReduceOp op, std::span<std::byte> data) {
  Made& made = this->made();
  for (std::size_t at = 0; at < data.size();) {
    const std::size_t piece = piece_for(data.size() - at);
    const auto part = data.subspan(at, std::min(piece, data.size() - at));
    Allreduce& sum = made.sum_of(type, op, piece);
    with_type(type, [&]<class T>(T) {
      const auto input = std::as_writable_bytes(sum.input<T>());
      std::ranges::copy(part, input.begin());
      std::ranges::fill(input.subspan(part.size()), std::byte{});
      made.insist(sum, [&](TimePoint deadline) { return sum.run(made.driver, deadline); });
      std::ranges::copy(std::as_bytes(sum.result<T>()).first(part.size()), part.begin());
    });
    at += part.size();
  }
}

void PyCollectives::broadcast(int root, std::span<std::byte> data) {
  Made& made = this->made();
  for (std::size_t at = 0; at < data.size();) {
    const std::size_t piece = piece_for(data.size() - at);
    const auto part = data.subspan(at, std::min(piece, data.size() - at));
    Broadcast& broadcast = made.broadcast_from(root, piece);
    const std::span words = std::span(made.words).first(piece / sizeof(std::int64_t));
    std::memcpy(words.data(), part.data(), part.size());
    made.insist(broadcast, [&](TimePoint deadline) { return broadcast.run(made.driver, deadline, words); });
    std::memcpy(part.data(), words.data(), part.size());
    at += part.size();
  }
}

void PyCollectives::abort(const std::string& reason) {
  if (!made_) return;
  made_->abort(reason);
  made_->world.keep(std::move(made_));  // its rounds may be under way for ever
}

void bind_collectives(nb::module_& module) {
  using Lock = nb::call_guard<Unlocked>;
  const auto bytes_at = [](std::uint64_t address, std::uint64_t bytes) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): Python says addresses as numbers
    return std::span(reinterpret_cast<std::byte*>(address), bytes);
  };
  nb::class_<PyCollectives>(module, "Collectives", "The ordinary collectives of one rank.")
      .def(nb::init<std::shared_ptr<PyJob>>(), Lock(), "job"_a, "At the same place in the program on every rank.")
      .def("agree", &PyCollectives::agree, Lock(), "what"_a,
           "Waits until all ranks have called this; raises UsageError on all where `what` differs.")
      .def(
          "allreduce",
          [bytes_at](PyCollectives& self, int type, int op, std::uint64_t address, std::uint64_t bytes) {
            self.allreduce(static_cast<DataType>(type), static_cast<ReduceOp>(op), bytes_at(address, bytes));
          },
          Lock(), "type"_a, "op"_a, "address"_a, "bytes"_a,
          "Puts the sum (0), minimum (1) or maximum (2) over all ranks in the place of the elements at an address.")
      .def(
          "broadcast",
          [bytes_at](PyCollectives& self, int root, std::uint64_t address, std::uint64_t bytes) {
            self.broadcast(root, bytes_at(address, bytes));
          },
          Lock(), "root"_a, "address"_a, "bytes"_a, "Puts the root's bytes in the place of those at an address.")
      .def("abort", &PyCollectives::abort, Lock(), "reason"_a, "The reason reaches every rank; no calls after it.")
      .def("close", &PyCollectives::close, Lock(), "Drops what needs the job.");
}

}  // namespace stretto::python
