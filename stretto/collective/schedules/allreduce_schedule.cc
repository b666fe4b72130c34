#include "stretto/collective/schedules/allreduce_schedule.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "stretto/base/defect.h"
#include "stretto/base/error.h"
#include "stretto/collective/schedules/part.h"

namespace stretto {
namespace {

constexpr std::uint64_t kMostPieces = 64;  // each has channels of its own

/// A buffer that holds the elements from `first` on, and the operation after which they are there.
struct Held {
  BufferId buffer = kNoBuffer;
  std::uint64_t first = 0;
  OpId ready = kNoOp;
  Slice slice(Part range) const { return {buffer, range.begin - first, range.count()}; }
};

/// The ranks that take part once their number has been folded to a power of two.
struct Folding {
  Folding(int rank, int ranks) : num_positions(static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)))) {
    num_pairs = ranks - num_positions;
    in_pair = rank < 2 * num_pairs;
    gives_way = in_pair && rank % 2 == 1;
    position = in_pair ? rank / 2 : rank - num_pairs;
  }
  int rank_at(int other) const { return other < num_pairs ? 2 * other : other + num_pairs; }

  int num_positions;
  int num_pairs;
  bool in_pair;
  bool gives_way;
  int position;
};

/// How many pieces an allreduce is cut into.
int pieces_of(const AllreduceSpec& spec, const BufferSpec& buffer) {
  if (spec.algorithm != AllreduceAlgorithm::halving_doubling) return 1;
  return static_cast<int>(
      std::clamp<std::uint64_t>(buffer.count * size_of(buffer.type) / spec.piece_bytes, 1, kMostPieces));
}

/// Shared by the algorithms. No buffer is changed while it may still be sent: a peer's data lands in memory of its own,
/// and into the result, which may be the contribution's memory, goes what is complete. That also keeps "empty" right,
/// which a buffer is as a whole: all parts of the sum are empty or none.
class Appender {
 public:
  Appender(ScheduleBuilder& builder, const AllreduceSpec& spec, OpId after)
      : b_(builder), spec_(spec), after_(after), rank_(builder.rank()), ranks_(builder.ranks()) {
    count_ = b_.spec(spec.contribution).count;
  }

  /// kNoOp where there is nothing to do and nothing to wait for.
  OpId append() {
    if (ranks_ == 1) return copy({spec_.result, 0, count_}, {spec_.contribution, 0, count_}, {after_});
    if (spec_.algorithm == AllreduceAlgorithm::direct) return append_direct();
    const int pieces = pieces_of(spec_, b_.spec(spec_.contribution));
    std::vector<OpId> done;
    for (int i = 0; i < pieces; ++i) {
      done.push_back(append_tree(part(count_, i, pieces), spec_.first_channel + 2 * i, spec_.headers && i == 0));
    }
    return after_all(done);
  }

 private:
  bool moves(Part range, bool header) const { return range.count() > 0 || header; }

  OpId marked(OpId op, bool header) {
    if (header) b_.with_header(op);
    return op;
  }

  OpId copy(Slice dst, Slice src, After after) { return marked(b_.copy(dst, src, after), spec_.headers); }

  /// kNoOp where there is nothing to move.
  OpId send(int peer, int channel, const Held& from, Part range, bool header) {
    if (!moves(range, header)) return kNoOp;
    return marked(b_.send(peer, channel, from.slice(range), {from.ready}), header);
  }

  OpId recv(int peer, int channel, const Held& to, Part range, bool header) {
    if (!moves(range, header)) return kNoOp;
    return marked(b_.recv(peer, channel, to.slice(range), {to.ready}), header);
  }

  Held scratch(const std::string& suffix, Part range) {
    const BufferSpec like = b_.spec(spec_.result);
    return {b_.scratch(like.name + suffix, like.type, range.count()), range.begin, kNoOp};
  }
  Held scratch_for(int peer, Part range) { return scratch(text(".from.", peer), range); }

  Held contribution() const { return {spec_.contribution, 0, after_}; }
  Held result() const { return {spec_.result, 0, after_}; }

  OpId after_all(const std::vector<OpId>& ops) { return ops.size() == 1 ? ops.front() : b_.nop(ops); }

  OpId append_tree(Part all, int channel, bool header);
  OpId gather(const Folding& folding, const std::vector<Part>& ranges, const Held& mine, int channel);
  OpId append_direct();

  ScheduleBuilder& b_;
  const AllreduceSpec& spec_;
  const OpId after_;
  const int rank_;
  const int ranks_;
  std::uint64_t count_;
};

/// Recursive doubling, or recursive halving and doubling: they differ in how much of the range is kept at a distance.
/// Of the elements `all`.
OpId Appender::append_tree(Part all, int channel, bool header) {
  const Folding folding(rank_, ranks_);
  if (folding.gives_way) {
    send(rank_ - 1, channel, contribution(), all, header);
    const OpId got = recv(rank_ - 1, channel, result(), all, header);
    return got == kNoOp ? after_ : got;
  }
  Held mine = contribution();
  OpId sent = kNoOp;  // the contribution, of which all is written again
  // Takes the peer's part, which is added to this rank's: there, or in the result.
  const auto take = [&](int peer, Part range, bool last) {
    const Held theirs = scratch_for(peer, range);
    const Held sum = last ? result() : theirs;
    const OpId got = recv(peer, channel, theirs, range, header);
    if (got == kNoOp) return Held{sum.buffer, sum.first, mine.ready};
    const bool first = rank_ < peer;
    const OpId summed =
        b_.reduce(sum.slice(range), (first ? mine : theirs).slice(range), (first ? theirs : mine).slice(range),
                  spec_.op, {got, mine.ready, last ? sent : kNoOp});
    return Held{sum.buffer, sum.first, marked(summed, header)};
  };
  if (folding.in_pair) {
    const Held both = take(rank_ + 1, all, false);
    if (!defect(Defect::skip_folded_rank)) mine = both;
  }

  const bool halving = spec_.algorithm == AllreduceAlgorithm::halving_doubling;
  std::vector<Part> ranges{all};  // the range this position is left with after each distance
  for (int distance = 1; distance < folding.num_positions; distance *= 2) {
    const int peer = folding.rank_at(folding.position ^ distance);
    const Part range = ranges.back();
    const std::uint64_t middle = range.begin + (range.count() + 1) / 2;
    const bool lower = (folding.position & distance) == 0;
    const Part low{range.begin, middle}, high{middle, range.end};
    const Part keep = !halving ? range : lower ? low : high;
    const Part give = !halving ? range : lower ? high : low;
    const OpId given = send(peer, channel, mine, give, header);
    if (spec_.in_place && !halving && mine.buffer == spec_.contribution) sent = given;
    mine = take(peer, keep, 2 * distance == folding.num_positions);
    ranges.push_back(keep);
  }
  const OpId done = halving ? gather(folding, ranges, mine, channel + 1) : mine.ready;
  if (folding.in_pair) send(rank_ + 1, channel, {spec_.result, 0, done}, all, header);
  return done;
}

/// The doubling half of halving and doubling: the ranges come back in the opposite order, into the result.
OpId Appender::gather(const Folding& folding, const std::vector<Part>& ranges, const Held& mine, int channel) {
  std::vector<OpId> here{mine.ready};
  std::size_t level = ranges.size() - 1;
  for (int distance = folding.num_positions / 2; distance > 0; distance /= 2, --level) {
    const int peer = folding.rank_at(folding.position ^ distance);
    const Part have = ranges[level];
    const Part both = ranges[level - 1];
    const Part theirs = have.begin == both.begin ? Part{have.end, both.end} : Part{both.begin, have.begin};
    if (have.count() > 0) b_.send(peer, channel, {spec_.result, have.begin, have.count()}, here);
    const OpId got = recv(peer, channel, result(), theirs, false);
    if (got != kNoOp) here.push_back(got);
  }
  return after_all(here);
}

OpId Appender::append_direct() {
  const auto range_of = [&](int rank) { return part(count_, rank, ranks_); };
  const Part own = range_of(rank_);
  Held sum = scratch(".own", own);
  std::vector<OpId> summed;
  const auto add = [&](const Held& from, OpId ready) {
    summed.push_back(marked(b_.reduce(sum.slice(own), from.slice(own), spec_.op, {ready}), spec_.headers));
  };
  if (moves(own, spec_.headers)) add(contribution(), after_);
  // Each starts with its successor, so that not all of them send to the same rank at once.
  for (int step = 1; step < ranks_; ++step) {
    const int to = (rank_ + step) % ranks_;
    send(to, spec_.first_channel, contribution(), range_of(to), spec_.headers);
    const int from = (rank_ + ranks_ - step) % ranks_;
    if (!moves(own, spec_.headers)) continue;
    const Held theirs = scratch_for(from, own);
    add(theirs, recv(from, spec_.first_channel, theirs, own, spec_.headers));
  }

  std::vector<OpId> here;
  if (moves(own, spec_.headers)) {
    sum.ready = b_.nop(summed);
    here.push_back(copy({spec_.result, own.begin, own.count()}, sum.slice(own), {sum.ready, after_}));
  }
  for (int step = 1; step < ranks_; ++step) {
    send((rank_ + step) % ranks_, spec_.first_channel + 1, sum, own, false);
    const int from = (rank_ + ranks_ - step) % ranks_;
    const OpId got = recv(from, spec_.first_channel + 1, result(), range_of(from), false);
    if (got != kNoOp) here.push_back(got);
  }
  return here.empty() ? after_ : after_all(here);
}

}  // namespace

const char* name_of(AllreduceAlgorithm algorithm) {
  switch (algorithm) {
    case AllreduceAlgorithm::recursive_doubling: return "recursive_doubling";
    case AllreduceAlgorithm::halving_doubling: return "halving_doubling";
    case AllreduceAlgorithm::direct: return "direct";
  }
  return "unknown algorithm";
}

AllreducePlan append_allreduce(ScheduleBuilder& builder, const AllreduceSpec& spec, OpId after) {
  const BufferSpec& from = builder.spec(spec.contribution);
  const BufferSpec& to = builder.spec(spec.result);
  if (spec.contribution == spec.result || from.type != to.type || from.count != to.count) {
    throw UsageError(text("allreduce of \"", from.name, "\" (", from.count, ' ', name_of(from.type), ") into \"",
                          to.name, "\" (", to.count, ' ', name_of(to.type),
                          "): they must be two buffers of the same type and count"));
  }
  const int pieces = pieces_of(spec, from);
  const OpId done = Appender(builder, spec, after).append();
  return {done == kNoOp ? builder.nop({}) : done,
          spec.algorithm == AllreduceAlgorithm::recursive_doubling ? 1 : 2 * pieces};
}

}  // namespace stretto
