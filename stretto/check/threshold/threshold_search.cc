#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/random.h"
#include "stretto/check/harness/searches.h"
#include "stretto/check/harness/simulated_application.h"
#include "stretto/schedule/builder.h"

namespace stretto {
namespace {

constexpr std::uint64_t kStream = 0x7468726573686f6c;

/// Into what memory rank 0 receives.
enum class Into { scratch, part_of_scratch, given };

/// How vectors, whose elements are all the same, are sent.
enum class Form { whole, element, difference };

struct Job {
  int ranks = 2;
  int enough = 1;
  std::uint64_t count = 1;
  Round rounds = 1;
  Into into = Into::scratch;
  Form form = Form::whole;

  std::string to_string() const {
    const char* where = into == Into::scratch           ? "scratch memory"
                        : into == Into::part_of_scratch ? "parts of scratch memory"
                                                        : "given memory";
    const char* sent = form == Form::whole     ? ""
                       : form == Form::element ? " sent as one"
                                               : " sent as a difference from the last one";
    return text("the first ", enough, " of ", ranks - 1, " vectors of ", count, " int64", sent, ", into ", where, ", ",
                rounds, " rounds");
  }
};

Schedule schedule_of(const Job& job, int rank) {
  ScheduleBuilder b("threshold", rank, job.ranks);
  if (rank != 0) return b.build(b.send(0, 0, b.whole(b.buffer("value", DataType::int64, job.count)), {}));
  std::vector<OpId> done;
  const BufferId sum = job.into == Into::given ? kNoBuffer : b.buffer("sum", DataType::int64, job.count);
  for (int peer = 1; peer < job.ranks; ++peer) {
    if (job.into == Into::given) {
      done.push_back(b.recv(peer, 0, b.whole(b.buffer("theirs", DataType::int64, job.count)), {}));
      continue;
    }
    const std::uint64_t before = job.into == Into::scratch ? 0 : job.count;
    const Slice theirs{b.scratch("theirs", DataType::int64, before + job.count), before, job.count};
    done.push_back(b.reduce(b.whole(sum), theirs, ReduceOp::sum, {b.recv(peer, 0, theirs, {})}));
  }
  const OpId complete = b.nop(done);
  b.need(complete, Need::count(job.enough));
  return b.build(complete);
}

/// Sends an element of a vector in the place of all, or by how much it is beyond that of the vector sent before.
class ElementCodec final : public BodyCodec {
 public:
  explicit ElementCodec(const Job& job)
      : differences_(job.form == Form::difference), whole_(job.count * 8), last_(static_cast<std::size_t>(job.ranks)) {}

  std::size_t encode(int peer, std::uint16_t, std::span<const std::byte> body, std::byte* to) override {
    std::int64_t element = 0;
    std::memcpy(&element, body.data(), sizeof element);
    const std::int64_t before = std::exchange(last_[static_cast<std::size_t>(peer)], element);
    if (differences_) element -= before;
    if (whole_ == sizeof element || (differences_ && before == 0)) return 0;
    std::memcpy(to, &element, sizeof element);
    return sizeof element;
  }
  bool sees_all() const override { return differences_; }
  bool decode(int peer, std::uint16_t, std::span<const std::byte> body, std::span<std::byte> to) override {
    std::int64_t element = 0;
    std::memcpy(&element, body.data(), sizeof element);
    std::int64_t& last = last_[static_cast<std::size_t>(peer)];
    last = element += differences_ && body.size() != whole_ ? last : 0;
    for (std::size_t at = 0; at < to.size(); at += sizeof element) std::memcpy(&to[at], &element, sizeof element);
    return body.size() == whole_ || body.size() == sizeof element;
  }

 private:
  const bool differences_;
  const std::size_t whole_;         // bytes
  std::vector<std::int64_t> last_;  // by peer: sent, or come
};

/// Begins the next round when the one before is retired.
class Rank final : public RoundOwner {
 public:
  Rank(SearchedJob& searched, const Job& job, int rank)
      : job_(job),
        application_(searched, rank,
                     {.waits = [] { return true; },
                      .look =
                          [this] {
                            while (begin_next()) {
                            }
                          }}),
        engine_(application_.engine()),
        codec_(job),
        schedule_(schedule_of(job, rank)) {
    buffers_ =
        static_cast<std::size_t>(std::ranges::count(schedule_.buffers(), BufferSpec::Role::given, &BufferSpec::role));
    id_ = engine_.add(*this);
    if (job.form != Form::whole) engine_.set_codec(id_, codec_);
  }

  void start() { application_.poll(); }

  Round retired() const { return then_.size(); }
  std::uint64_t dropped() const { return dropped_; }
  const std::optional<Error>& failure() const { return failure_; }
  /// What is wrong with a round of rank 0.
  std::optional<std::string> fault(Round round) const;

 private:
  bool admit(Round round, const Envelope&) override {
    if (round >= opened_ || engine_.is_open(id_, round)) return true;
    ++dropped_;
    return false;
  }
  bool call(Round, OpId, std::uint32_t) override { return true; }
  void completed(Round) override {}
  void retired(Round round) override { then_.push_back(memory_[round]); }
  void control(int, const Envelope&, std::span<const std::byte>) override {}
  void lost(int, const Error&) override {}
  void broken(const Error& reason) override { failure_ = reason; }
  bool poll(TimePoint) override { return false; }

  /// What rank r brings to a round is a number of its own 8 bits, in every element.
  static std::int64_t value_of(int rank, Round round) {
    return rank == 0 ? 0 : static_cast<std::int64_t>(1 + round) << 8 * (rank - 1);
  }

  bool begin_next() {
    if (opened_ == job_.rounds || opened_ > retired()) return false;
    const Round round = opened_++;
    memory_.emplace_back(buffers_ * job_.count, value_of(engine_.rank(), round));
    engine_.open(id_, round, schedule_, 0);
    for (std::size_t i = 0; i < buffers_; ++i) {
      auto* data = reinterpret_cast<std::byte*>(memory_[round].data() + i * job_.count);
      engine_.bind(id_, round, static_cast<BufferId>(i), {data, true});
    }
    return true;
  }

  const Job& job_;
  SimulatedApplication application_;
  Engine& engine_;
  ElementCodec codec_;
  const Schedule schedule_;
  std::size_t buffers_ = 0;
  CollectiveId id_ = 0;
  Round opened_ = 0;
  std::uint64_t dropped_ = 0;  // messages that came when their round had been retired
  std::optional<Error> failure_;
  std::vector<std::vector<std::int64_t>> memory_, then_;  // of each round; the same when it was retired
};

std::optional<std::string> Rank::fault(Round round) const {
  const std::vector<std::int64_t>& then = then_[round];
  if (memory_[round] != then) return text("round ", round, ": its memory is written to after it has been retired");
  int came = 0;
  for (int peer = 1; peer < job_.ranks; ++peer) {
    const std::size_t first = job_.into == Into::given ? static_cast<std::size_t>(peer - 1) * job_.count : 0;
    const auto begin = then.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = begin + static_cast<std::ptrdiff_t>(job_.count);
    if (std::adjacent_find(begin, end, std::not_equal_to<>()) != end) {
      return text("round ", round, ": a vector of which a part is another round's, or has not come");
    }
    const std::int64_t theirs = *begin >> 8 * (peer - 1) & 0xff;
    if (theirs == 0) continue;
    if (theirs != static_cast<std::int64_t>(round) + 1) {
      return text("round ", round, " holds what rank ", peer, " brought to round ", theirs - 1);
    }
    ++came;
  }
  if (came < job_.enough) return text("round ", round, " has taken ", came, " vectors, and needs ", job_.enough);
  return std::nullopt;
}

std::optional<std::string> violation_of(const std::vector<std::unique_ptr<Rank>>& all, const Job& job) {
  for (const auto& rank : all) {
    if (rank->failure()) return rank->failure()->message;
    if (rank->retired() < job.rounds) return text("the job rests in round ", rank->retired());
  }
  for (Round round = 0; round < job.rounds; ++round) {
    if (auto fault = all[0]->fault(round)) return fault;
  }
  return std::nullopt;
}

}  // namespace

void run_threshold_job(std::uint64_t seed, const JobLimits& limits, JobFinding& finding) {
  Random random(seed, kStream);
  Job job{.ranks = static_cast<int>(random.between(2, 8))};
  if (limits.ranks != 0) job.ranks = std::clamp(limits.ranks, 2, 8);  // a byte of an int64 for each rank that sends
  job.enough = static_cast<int>(random.between(1, job.ranks - 1));
  job.count = random.log_uniform(1, 1000);
  job.rounds = random.log_uniform(1, 30);
  job.into = static_cast<Into>(random.below(3));
  job.form = static_cast<Form>(random.below(3));
  Machines machines = draw_machines(random, job.ranks);
  if (random.chance(0.5)) machines.network.pieces = static_cast<int>(random.between(1, 16));
  SearchedJob searched(machines, seed, finding);
  finding.job = job.to_string();
  std::vector<std::unique_ptr<Rank>> all;
  for (int rank = 0; rank < job.ranks; ++rank) all.push_back(std::make_unique<Rank>(searched, job, rank));
  for (const auto& rank : all) rank->start();
  searched.run();
  if (!finding.violation) finding.violation = violation_of(all, job);
  finding.rounds = job.rounds;
  finding.reached = {all[0]->dropped()};
}

}  // namespace stretto
