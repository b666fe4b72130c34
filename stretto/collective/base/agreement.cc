#include "stretto/collective/base/agreement.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "stretto/base/description.h"
#include "stretto/collective/schedules/plain_schedules.h"

namespace stretto {
namespace {

constexpr std::uint16_t kGather = kControlChannel;         // to the first member; note: length of the whole
constexpr std::uint16_t kBroadcast = kControlChannel + 1;  // down the tree; note: length of the whole

constexpr std::uint16_t kTell = kControlChannel + 2;    // to any member
constexpr std::uint16_t kAsk = kControlChannel + 3;     // likewise
constexpr std::uint16_t kAnswer = kControlChannel + 4;  // to the member that has asked; note: numbers begun

/// Of one gathered or broadcast body.
constexpr std::uint64_t kMaxBodyBytes = std::uint64_t{1} << 30;

constexpr BufferId kMyWords = 0, kAllWords = 1;  // of allreduce_schedule()

std::byte* address_of(std::vector<std::uint64_t>& words) {
  return reinterpret_cast<std::byte*>(words.data());
}

}  // namespace

Agreement::Agreement(Engine& engine, CollectiveFailure& failure, std::vector<int> members, std::string description)
    : engine_(engine),
      failure_(failure),
      members_(std::move(members)),
      description_(std::move(description)),
      me_(member_of(engine.rank())),
      answers_(members_.size()) {
  const Engine::Pause pause(engine);
  id_ = engine.add(*this, description_);
}

Agreement::~Agreement() {
  engine_.remove(id_);
}

int Agreement::member_of(int rank) const {
  const auto at = std::ranges::find(members_, rank);
  return at == members_.end() ? -1 : static_cast<int>(at - members_.begin());
}

Agreement::Begun& Agreement::begin(Kind kind) {
  STRETTO_CHECK(me_ >= 0, "rank ", engine_.rank(), " has no part in the ", words_of(description_));
  return begun_.emplace_back(Begun{kind, {.number = traffic_.begun++}, {}, false});
}

void Agreement::gather(std::span<const std::byte> bytes) {
  Begun& begun = begin(Kind::gather);
  const std::uint64_t number = begun.outcome.number;
  if (me_ == 0) {
    auto& pieces = gathered_[number];
    pieces.resize(members_.size());
    pieces[0] = {{bytes.begin(), bytes.end()}, true};
  } else {
    send(0, kGather, number, bytes);
  }
  look_for_pieces(begun);
}

void Agreement::broadcast(std::span<const std::byte> bytes) {
  Begun& begun = begin(Kind::broadcast);
  const std::uint64_t number = begun.outcome.number;
  if (me_ == 0) {
    for (const int child : binomial_tree(0, size(), 0).children) send(child, kBroadcast, number, bytes);
    broadcast_[number] = {{bytes.begin(), bytes.end()}, true};
  }
  look_for_pieces(begun);
}

std::optional<Agreement::Outcome> Agreement::take() {
  if (begun_.empty() || !begun_.front().complete) return std::nullopt;
  Outcome outcome = std::move(begun_.front().outcome);
  begun_.pop_front();
  return outcome;
}

bool Agreement::lacks(int rank) const {
  const int member = member_of(rank);
  if (member < 0) return false;
  return std::ranges::any_of(begun_, [&](const Begun& begun) {
    const std::uint64_t number = begun.outcome.number;
    if (begun.complete) return false;
    if (begun.kind == Kind::gather) return !gathered_.at(number)[static_cast<std::size_t>(member)].all;
    if (begun.kind == Kind::broadcast) return binomial_tree(me_, size(), 0).parent == member;
    return engine_.lacks(id_, number, rank);
  });
}

void Agreement::tell(int member, std::span<const std::byte> bytes) {
  engine_.send_control(id_, rank_of(member), kTell, 0, 0, bytes);
  ++traffic_.messages;
  traffic_.bytes += bytes.size();
}

std::optional<Agreement::Told> Agreement::take_told() {
  if (told_.empty()) return std::nullopt;
  Told told = std::move(told_.front());
  told_.pop_front();
  return told;
}

// ---- who has begun ----

std::optional<std::uint64_t> Agreement::incomplete() const {
  const auto first = std::ranges::find(begun_, false, &Begun::complete);
  if (first == begun_.end()) return std::nullopt;
  return first->outcome.number;
}

void Agreement::ask(std::uint64_t number) {
  asked_ = number;
  answers_.assign(answers_.size(), std::nullopt);
  for (int member = 0; member < size(); ++member) {
    if (member != me_) send(member, kAsk, number, {});
  }
}

bool Agreement::all_have_answered() const {
  const auto open = std::ranges::count_if(answers_, [](const auto& answer) { return !answer; });
  return open <= 1;  // this member does not ask itself
}

// ---- reductions ----

const Schedule& Agreement::schedule(std::uint64_t count, ReduceOp op) {
  auto& known = schedules_[{count, op}];
  if (known == nullptr) {
    const Schedule alone =
        allreduce_schedule(me_, size(), DataType::int64, count, op, AllreduceAlgorithm::recursive_doubling);
    known = std::make_unique<Schedule>(alone.among(members_, engine_.size()));
  }
  return *known;
}

void Agreement::reduce(std::vector<std::uint64_t> words, ReduceOp op) {
  Begun& begun = begin(Kind::reduction);
  begun.mine = std::move(words);
  begun.outcome.words.resize(begun.mine.size());
  const Schedule& schedule = this->schedule(begun.mine.size(), op);
  const Round round = begun.outcome.number;
  for (const Op& operation : schedule.ops()) {
    if (operation.kind != OpKind::send) continue;
    ++traffic_.messages;
    traffic_.bytes += bytes_of(schedule, operation);
  }
  engine_.open(id_, round, schedule, 0);
  engine_.bind(id_, round, kMyWords, {address_of(begun.mine), true});
  engine_.bind(id_, round, kAllWords, {address_of(begun.outcome.words), false});
}

bool Agreement::admit(Round round, const Envelope&) {
  return !failure_.failed() && (round >= traffic_.begun || engine_.is_open(id_, round));
}

void Agreement::retired(Round round) {
  const std::uint64_t oldest = traffic_.begun - begun_.size();
  begun_[round - oldest].complete = true;
}

// ---- gathers and broadcasts ----

/// In pieces, of which an empty body has one, too.
void Agreement::send(int member, std::uint16_t channel, std::uint64_t number, std::span<const std::byte> bytes) {
  const std::uint64_t length = bytes.size();
  do {
    const auto piece = bytes.first(std::min(bytes.size(), kMaxHeadBytes));
    engine_.send_control(id_, rank_of(member), channel, number, length, piece);
    ++traffic_.messages;
    traffic_.bytes += piece.size();
    bytes = bytes.subspan(piece.size());
  } while (!bytes.empty());
}

/// Returns whether the piece fits.
bool Agreement::take_piece(Pieces& pieces, std::uint64_t length, std::span<const std::byte> head) {
  if (pieces.all || length > kMaxBodyBytes || pieces.bytes.size() + head.size() > length) return false;
  pieces.bytes.insert(pieces.bytes.end(), head.begin(), head.end());
  pieces.all = pieces.bytes.size() == length;
  return pieces.all || !head.empty();
}

void Agreement::control(int peer, const Envelope& envelope, std::span<const std::byte> head) {
  const int member = member_of(peer);
  const std::uint64_t number = envelope.round;
  if (envelope.channel == kTell && member >= 0 && (me_ >= 0)) {
    told_.push_back({member, {head.begin(), head.end()}});
    return;
  }
  if (envelope.channel == kAsk && member >= 0 && (me_ >= 0)) {
    engine_.send_control(id_, peer, kAnswer, number, traffic_.begun, {});
    ++traffic_.messages;
    return;
  }
  if (envelope.channel == kAnswer && member >= 0 && (me_ >= 0)) {
    if (number == asked_) answers_[static_cast<std::size_t>(member)] = envelope.note;
    return;
  }
  const bool is_gather = envelope.channel == kGather && me_ == 0;
  const BinomialTree tree = (me_ >= 0) ? binomial_tree(me_, size(), 0) : BinomialTree{};
  const bool is_broadcast = envelope.channel == kBroadcast && (me_ >= 0) && member == tree.parent;
  if (member < 0 || !(is_gather || is_broadcast)) return broken(CollectiveFailure::unknown(peer, envelope));

  Pieces* pieces = nullptr;
  if (is_gather) {
    auto& all = gathered_[number];
    all.resize(members_.size());
    pieces = &all[static_cast<std::size_t>(member)];
  } else {
    for (const int child : tree.children) {
      engine_.send_control(id_, rank_of(child), kBroadcast, number, envelope.note, head);
      ++traffic_.messages;
      traffic_.bytes += head.size();
    }
    pieces = &broadcast_[number];
  }
  if (!take_piece(*pieces, envelope.note, head)) {
    return broken({Errc::bad_input,
                   text("rank ", peer, " has sent a piece of number ", number, " of the ", words_of(description_),
                        " that does not fit: ", head.size(), " bytes of ", envelope.note),
                   peer});
  }
  const std::uint64_t oldest = traffic_.begun - begun_.size();
  if (number >= oldest && number < traffic_.begun) look_for_pieces(begun_[number - oldest]);
}

void Agreement::look_for_pieces(Begun& begun) {
  const std::uint64_t number = begun.outcome.number;
  if (begun.kind == Kind::gather) {
    if (me_ == 0) {
      const auto all = gathered_.find(number);
      if (!std::ranges::all_of(all->second, &Pieces::all)) return;
      for (Pieces& pieces : all->second) begun.outcome.gathered.push_back(std::move(pieces.bytes));
      gathered_.erase(all);
    }
    begun.complete = true;
  } else if (begun.kind == Kind::broadcast) {
    const auto pieces = broadcast_.find(number);
    if (pieces == broadcast_.end() || !pieces->second.all) return;
    begun.outcome.bytes = std::move(pieces->second.bytes);
    broadcast_.erase(pieces);
    begun.complete = true;
  }
}

}  // namespace stretto
