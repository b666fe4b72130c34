#include "stretto/ordering/runtime/control_collectives.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "stretto/collective/schedules/binomial_tree.h"
#include "stretto/collective/schedules/plain_schedules.h"

namespace stretto {
namespace {

constexpr std::uint16_t kGather = kControlChannel;         // to the first member; note: length of the whole
constexpr std::uint16_t kBroadcast = kControlChannel + 1;  // down the tree; note: length of the whole

constexpr std::uint16_t kTell = kControlChannel + 2;    // to any member
constexpr std::uint16_t kAsk = kControlChannel + 3;     // likewise
constexpr std::uint16_t kAnswer = kControlChannel + 4;  // to the member that has asked; note: controls begun

/// Of one gathered or broadcast body: more is no request list.
constexpr std::uint64_t kMaxBodyBytes = std::uint64_t{1} << 30;

constexpr BufferId kMyWords = 0, kAllWords = 1;  // of allreduce_schedule()

std::byte* address_of(std::vector<std::uint64_t>& words) {
  return reinterpret_cast<std::byte*>(words.data());
}

}  // namespace

ControlCollectives::ControlCollectives(Engine& engine, CollectiveFailure& failure, ProcessSet set,
                                       const std::string& alike)
    : engine_(engine), failure_(failure), set_(std::move(set)) {
  answers_.resize(static_cast<std::size_t>(set_.size()));
  const Engine::Pause pause(engine);
  id_ = engine.add(*this, text("agreements of ", set_.to_text(), alike));
}

ControlCollectives::~ControlCollectives() {
  engine_.remove(id_);
}

void ControlCollectives::start(const OrdererAction& action) {
  STRETTO_CHECK(set_.has_this_rank(), "rank ", engine_.rank(), " is not in set ", set_.number());
  STRETTO_CHECK(action.control == traffic_.controls, "control ", action.control, " of set ", set_.number(), " after ",
                traffic_.controls);
  ++traffic_.controls;
  Begun& begun = begun_.emplace_back(Begun{action.kind, {.control = action.control}, {}, false});
  switch (action.kind) {
    case OrdererAction::Kind::sync:
      begun.mine = action.words;
      start_reduction(begun, ReduceOp::bit_and);
      break;
    case OrdererAction::Kind::minimum:
      begun.mine = {static_cast<std::uint64_t>(action.nap.count())};
      start_reduction(begun, ReduceOp::min);
      break;
    case OrdererAction::Kind::gather:
      if (set_.me() == 0) {
        auto& pieces = gathered_[action.control];
        pieces.resize(static_cast<std::size_t>(set_.size()));
        pieces[0] = {action.bytes, true};
      } else {
        send(0, kGather, action.control, action.bytes);
      }
      look_for_pieces(begun);
      break;
    case OrdererAction::Kind::broadcast:
      if (set_.me() == 0) {
        for (const int child : binomial_tree(0, set_.size(), 0).children)
          send(child, kBroadcast, action.control, action.bytes);
        broadcast_[action.control] = {action.bytes, true};
      }
      look_for_pieces(begun);
      break;
    default: STRETTO_CHECK(false, "no control collective: ", static_cast<int>(action.kind));
  }
}

std::optional<ControlResult> ControlCollectives::take_result() {
  if (begun_.empty() || !begun_.front().complete) return std::nullopt;
  ControlResult result = std::move(begun_.front().result);
  const bool is_minimum = begun_.front().kind == OrdererAction::Kind::minimum;
  begun_.pop_front();
  if (is_minimum) result.nap = Duration(static_cast<std::int64_t>(std::exchange(result.words, {}).front()));
  return result;
}

bool ControlCollectives::lacks(int rank) const {
  const int member = set_.member(rank);
  if (member < 0) return false;
  return std::ranges::any_of(begun_, [&](const Begun& begun) {
    const std::uint64_t number = begun.result.control;
    if (begun.complete) return false;
    if (begun.kind == OrdererAction::Kind::gather) return !gathered_.at(number)[static_cast<std::size_t>(member)].all;
    if (begun.kind == OrdererAction::Kind::broadcast) return binomial_tree(set_.me(), set_.size(), 0).parent == member;
    return engine_.lacks(id_, number, rank);
  });
}

void ControlCollectives::tell(int member, std::span<const std::byte> bytes) {
  engine_.send_control(id_, set_.rank_of(member), kTell, 0, 0, bytes);
  ++traffic_.messages;
  traffic_.bytes += bytes.size();
}

std::optional<ControlCollectives::Told> ControlCollectives::take_told() {
  if (told_.empty()) return std::nullopt;
  Told told = std::move(told_.front());
  told_.pop_front();
  return told;
}

// ---- who has begun ----

std::optional<std::uint64_t> ControlCollectives::incomplete() const {
  const auto first = std::ranges::find(begun_, false, &Begun::complete);
  if (first == begun_.end()) return std::nullopt;
  return first->result.control;
}

void ControlCollectives::ask(std::uint64_t control) {
  asked_ = control;
  answers_.assign(answers_.size(), std::nullopt);
  for (int member = 0; member < set_.size(); ++member) {
    if (member != set_.me()) send(member, kAsk, control, {});
  }
}

bool ControlCollectives::all_have_answered() const {
  const auto open = std::ranges::count_if(answers_, [](const auto& answer) { return !answer; });
  return open <= 1;  // this member does not ask itself
}

// ---- syncs and minima ----

const Schedule& ControlCollectives::reduction(std::uint64_t count, ReduceOp op) {
  auto& known = reductions_[{count, op}];
  if (known == nullptr) {
    const Schedule alone =
        allreduce_schedule(set_.me(), set_.size(), DataType::int64, count, op, AllreduceAlgorithm::recursive_doubling);
    known = std::make_unique<Schedule>(alone.among(set_.members(), engine_.size()));
  }
  return *known;
}

void ControlCollectives::start_reduction(Begun& begun, ReduceOp op) {
  const std::uint64_t count = begun.mine.size();
  begun.result.words.resize(count);
  const Schedule& schedule = reduction(count, op);
  const Round round = begun.result.control;
  for (const Op& operation : schedule.ops()) {
    if (operation.kind != OpKind::send) continue;
    ++traffic_.messages;
    traffic_.bytes += bytes_of(schedule, operation);
  }
  engine_.open(id_, round, schedule, 0);
  engine_.bind(id_, round, kMyWords, {address_of(begun.mine), true});
  engine_.bind(id_, round, kAllWords, {address_of(begun.result.words), false});
}

bool ControlCollectives::admit(Round round, const Envelope&) {
  return !failure_.failed() && (round >= traffic_.controls || engine_.is_open(id_, round));
}

void ControlCollectives::retired(Round round) {
  const std::uint64_t oldest = traffic_.controls - begun_.size();
  begun_[round - oldest].complete = true;
}

// ---- gathers and broadcasts ----

/// In pieces, of which an empty body has one, too.
void ControlCollectives::send(int member, std::uint16_t channel, std::uint64_t number,
                              std::span<const std::byte> bytes) {
  const std::uint64_t length = bytes.size();
  do {
    const auto piece = bytes.first(std::min(bytes.size(), kMaxHeadBytes));
    engine_.send_control(id_, set_.rank_of(member), channel, number, length, piece);
    ++traffic_.messages;
    traffic_.bytes += piece.size();
    bytes = bytes.subspan(piece.size());
  } while (!bytes.empty());
}

/// Returns whether the piece fits.
bool ControlCollectives::take_piece(Pieces& pieces, std::uint64_t length, std::span<const std::byte> head) {
  if (pieces.all || length > kMaxBodyBytes || pieces.bytes.size() + head.size() > length) return false;
  pieces.bytes.insert(pieces.bytes.end(), head.begin(), head.end());
  pieces.all = pieces.bytes.size() == length;
  return pieces.all || !head.empty();
}

void ControlCollectives::control(int peer, const Envelope& envelope, std::span<const std::byte> head) {
  const int member = set_.member(peer);
  const std::uint64_t number = envelope.round;
  if (envelope.channel == kTell && member >= 0 && set_.has_this_rank()) {
    told_.push_back({member, {head.begin(), head.end()}});
    return;
  }
  if (envelope.channel == kAsk && member >= 0 && set_.has_this_rank()) {
    engine_.send_control(id_, peer, kAnswer, number, traffic_.controls, {});
    ++traffic_.messages;
    return;
  }
  if (envelope.channel == kAnswer && member >= 0 && set_.has_this_rank()) {
    if (number == asked_) answers_[static_cast<std::size_t>(member)] = envelope.note;
    return;
  }
  const bool is_gather = envelope.channel == kGather && set_.me() == 0;
  const BinomialTree tree = set_.has_this_rank() ? binomial_tree(set_.me(), set_.size(), 0) : BinomialTree{};
  const bool is_broadcast = envelope.channel == kBroadcast && set_.has_this_rank() && member == tree.parent;
  if (member < 0 || !(is_gather || is_broadcast)) return broken(CollectiveFailure::unknown(peer, envelope));

  Pieces* pieces = nullptr;
  if (is_gather) {
    auto& all = gathered_[number];
    all.resize(static_cast<std::size_t>(set_.size()));
    pieces = &all[static_cast<std::size_t>(member)];
  } else {
    for (const int child : tree.children) {
      engine_.send_control(id_, set_.rank_of(child), kBroadcast, number, envelope.note, head);
      ++traffic_.messages;
      traffic_.bytes += head.size();
    }
    pieces = &broadcast_[number];
  }
  if (!take_piece(*pieces, envelope.note, head)) {
    return broken({Errc::bad_input,
                   text("rank ", peer, " has sent a piece of agreement ", number, " of set ", set_.number(),
                        " that does not fit: ", head.size(), " bytes of ", envelope.note),
                   peer});
  }
  const std::uint64_t oldest = traffic_.controls - begun_.size();
  if (number >= oldest && number < traffic_.controls) look_for_pieces(begun_[number - oldest]);
}

void ControlCollectives::look_for_pieces(Begun& begun) {
  const std::uint64_t number = begun.result.control;
  if (begun.kind == OrdererAction::Kind::gather) {
    if (set_.me() == 0) {
      const auto all = gathered_.find(number);
      if (!std::ranges::all_of(all->second, &Pieces::all)) return;
      for (Pieces& pieces : all->second) begun.result.gathered.push_back(std::move(pieces.bytes));
      gathered_.erase(all);
    }
    begun.complete = true;
  } else if (begun.kind == OrdererAction::Kind::broadcast) {
    const auto pieces = broadcast_.find(number);
    if (pieces == broadcast_.end() || !pieces->second.all) return;
    begun.result.bytes = std::move(pieces->second.bytes);
    broadcast_.erase(pieces);
    begun.complete = true;
  }
}

}  // namespace stretto
