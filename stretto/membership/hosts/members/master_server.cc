#include "stretto/membership/hosts/members/master_server.h"

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "stretto/base/version.h"
#include "stretto/membership/hosts/line.h"
#include "stretto/membership/hosts/members/link_words.h"
#include "stretto/membership/hosts/members/master_side.h"
#include "stretto/membership/views/members_in_words.h"

namespace stretto {
namespace {

using asio::ip::tcp;

constexpr std::chrono::milliseconds kTickEvery{100};
constexpr Duration kToComeBack = std::chrono::seconds(5);  // for members, to another master

}  // namespace

/// Of the network's thread.
class MasterServer::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::io_context& io, Register& reg, const MasterServerOptions& options, MasterHooks hooks)
      : io_(io),
        register_(reg),
        program_(options.program),
        liveness_(options.liveness),
        reads_reports_(options.reads_reports),
        patience_(options.patience),
        has_hosts_(options.has_hosts),
        is_next_(options.is_next),
        hooks_(std::move(hooks)),
        timer_(io),
        master_(reg, options.master, clock_.now(),
                {.say = [this](MemberNumber to, const MasterWords& words) { say(to, words); },
                 .tell = [this](const std::string& line) { tell(line); },
                 .kill = [this](MemberNumber number) { end(number, MasterWords::Kind::kill, hooks_.kill); }}),
        places_(options.places, options.given) {}

  void begin() {
    master_.begin();
    const auto content = known();
    if (content->view.epoch > 0 || is_next_) wait_for_members_of(content->view);
    asio::co_spawn(
        io_, [self = shared_from_this()] { return self->keep_time(); }, asio::detached);
  }
  void come(const Hello& hello, tcp::socket socket) {
    asio::co_spawn(
        io_,
        [self = shared_from_this(), line = std::make_shared<Line>(std::move(socket)), version = hello.version] {
          return self->attend(line, version);
        },
        asio::detached);
  }
  void lose(MemberNumber number) {
    if (closed_) return;
    places_.ended(number);
    asked_.erase(number);
    if (const auto found = lines_.find(number); found != lines_.end() && found->second.ended) lines_.erase(found);
    master_.lose(number);
  }
  void close() {
    closed_ = true;
    timer_.cancel();
    for (auto& [number, process] : lines_) process.line->cancel();
    for (const auto& line : visitors_) line->cancel();
  }
  std::optional<GivenPlaces::Given> give_place(std::optional<int> wish) { return places_.give(wish); }
  void send_away(MemberNumber number) {
    sent_away_.insert(number);
    say(number, MasterWords::of(MasterWords::Kind::leave));
  }
  std::shared_ptr<const Registered> known() const { return master_.known(); }
  Result<std::map<MemberNumber, std::string>> reports() { return register_.reports(); }
  std::size_t visitors() const {
    const auto is_there = [this](const auto& one) { return !one.second.ended && !gone_with_host_.contains(one.first); };
    return visitors_.size() + static_cast<std::size_t>(std::ranges::count_if(lines_, is_there));
  }
  void hold_office(TimePoint until) { office_until_ = until; }

 private:
  /// A process that has said for which member it speaks.
  struct Process {
    std::shared_ptr<Line> line;
    std::string name;                     // of the process: HelloWords may come from two that have one number
    std::optional<TimePoint> ended = {};  // the line
  };

  static std::string version_here() { return text("stretto ", stretto_version()); }
  asio::awaitable<void> keep_time();
  asio::awaitable<void> attend(std::shared_ptr<Line> line, std::string version);
  /// Says why, and waits until that has been heard.
  asio::awaitable<void> refuse(std::shared_ptr<Line> line, std::string why);
  asio::awaitable<void> attend_member(std::shared_ptr<Line> line, ProcessWords first);
  /// Of a process that is no member, or not yet.
  void answer(const std::shared_ptr<Line>& line, const ProcessWords& words);
  void end_visit(const std::shared_ptr<Line>& line);
  /// Tells all that the master is there, and sees who is not.
  void beat(TimePoint now);
  void write_beat(const std::shared_ptr<Line>& line) const {
    MasterWords beat = MasterWords::of(MasterWords::Kind::beat);
    beat.limit = liveness_;
    beat.patience = patience_;
    beat.has_hosts = has_hosts_;
    line->write(beat);
  }
  void lose_host(const std::shared_ptr<Line>& line);
  /// Whether a process may still be there, and make another connection, though this one has ended.
  bool may_come_back(const std::shared_ptr<Line>& line) const {
    const bool may_be_there = !line->is_closed_there() || may_be_replaced();
    return liveness_ > Duration::zero() && may_be_there && known()->end == JobEnd::none;
  }
  /// The process of a member, whose line has ended.
  void end_process(MemberNumber number) {
    lines_.erase(number);
    gone_with_host_.erase(number);
    sent_away_.erase(number);
    lose(number);
  }
  /// Whether another master may be in the place of this one: processes go to that.
  bool may_be_replaced() const { return clock_.now() >= office_until_; }
  MasterWords standing() const;
  /// At the beginning, where another master has left a view: its members are to come back, and what has been lost while
  /// no master was there does not.
  void wait_for_members_of(const View& view);
  void lose_those_that_have_not_come();
  void keep_reports();
  /// Tells those that speak for no member of the job's end, since they may ask when this master is gone, and of the
  /// processes for which nobody waits any more.
  void tell_end() const;
  /// Tells the one that has started the process of a number that this is to be ended.
  void end(MemberNumber number, MasterWords::Kind why, const std::function<void(MemberNumber)>& hook) const {
    if (const auto asked = asked_.find(number); asked != asked_.end()) {
      return asked->second->write(MasterWords::of(why, number));
    }
    if (hook) hook(number);
  }
  void say(MemberNumber number, const MasterWords& words) {
    if (const auto line = lines_.find(number); line != lines_.end()) line->second.line->write(words);
  }
  void tell(const std::string& line) const {
    if (hooks_.tell) return hooks_.tell(line);
    std::fprintf(stderr, "stretto: %s\n", line.c_str());
  }

  asio::io_context& io_;
  Register& register_;
  const std::vector<std::string> program_;
  const Duration liveness_;
  const bool reads_reports_;
  const Duration patience_;
  const bool has_hosts_, is_next_;
  const MasterHooks hooks_;
  asio::steady_timer timer_;
  const SteadyClock clock_;
  MasterSide master_;  // uses the clock
  GivenPlaces places_;
  std::map<MemberNumber, Process> lines_;                // of the processes that have come and not ended
  std::map<MemberNumber, std::shared_ptr<Line>> asked_;  // who has asked for their numbers, where it is not the owner
  std::set<std::shared_ptr<Line>> visitors_;             // that speak for no member
  std::map<MemberNumber, std::string> reports_;          // that the register does not keep yet
  std::set<MemberNumber> lost_with_host_;                // which was silent
  std::set<MemberNumber> gone_with_host_;                // of these, whose lines have not ended
  std::set<MemberNumber> sent_away_;                     // told to leave
  std::vector<PlacedMember> awaited_;                    // members of another master's view
  TimePoint awaited_until_;
  TimePoint beat_at_;
  std::string waited_;                      // what it waits for, in words
  TimePoint tell_at_ = TimePoint::never();  // that again
  bool closed_ = false, end_told_ = false;
  TimePoint office_until_ = TimePoint::never();
};

asio::awaitable<void> MasterServer::Impl::keep_time() {
  while (!closed_) {
    asio::error_code error;
    timer_.expires_after(kTickEvery);
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, error));
    if (closed_) co_return;
    const TimePoint now = clock_.now();
    if (!may_be_replaced()) {
      master_.tick(now);
      if (!awaited_.empty() && now >= awaited_until_) lose_those_that_have_not_come();
    }
    if (known()->end != JobEnd::none && !std::exchange(end_told_, true)) tell_end();
    keep_reports();
    beat(now);
    const std::string waits = master_.master().waiting();
    if (waits.empty() || waits != waited_) tell_at_ = waits.empty() ? TimePoint::never() : now + kSilence;
    waited_ = waits;
    if (now < tell_at_) continue;
    tell(waits);
    tell_at_ = now + kSilence;
  }
}

/// A process is told that its report is heard once the register has it, so that no master takes it along.
void MasterServer::Impl::keep_reports() {
  while (!reports_.empty()) {
    const auto& [number, report] = *reports_.begin();
    const auto kept = register_.keep_report(number, report);
    if (!kept && kept.error().code != Errc::unavailable) return;  // with the next tick again
    if (!kept) tell(text("what member ", number, " has reported is lost: ", kept.error().message));
    say(number, MasterWords::of(MasterWords::Kind::heard));
    reports_.erase(reports_.begin());
  }
}

void MasterServer::Impl::tell_end() const {
  for (const auto& line : visitors_) line->write(MasterWords{.kind = MasterWords::Kind::tell, .content = known()});
  for (const auto& [number, place] : places_.taken()) {
    const bool has_come = lines_.contains(number) || !known()->view.may_come_in(number);
    if (!has_come) end(number, MasterWords::Kind::not_come, hooks_.not_come);
  }
}

/// Processes that wait as spares have numbers and places, too, and come back with them.
void MasterServer::Impl::wait_for_members_of(const View& view) {
  places_.has_come(view.next_number + static_cast<MemberNumber>(places_.places()) - 1);
  awaited_ = view.members;
  awaited_until_ = clock_.now() + std::max<Duration>(liveness_, kToComeBack);
}

void MasterServer::Impl::lose_those_that_have_not_come() {
  for (const PlacedMember& member : std::exchange(awaited_, {})) {
    if (lines_.contains(member.number) || !known()->view.has(member.number)) continue;
    tell(text("member ", member.number, " has not come back to the master: lost"));
    lose(member.number);
  }
}

void MasterServer::Impl::beat(TimePoint now) {
  if (liveness_ <= Duration::zero() || now < beat_at_) return;
  if (may_be_replaced()) {
    for (auto& [number, process] : lines_) {
      if (process.ended) process.ended = now;
    }
    return;
  }
  beat_at_ = now + liveness_ / 10;
  std::vector<MemberNumber> ended;
  for (const auto& [number, process] : lines_) {
    if (!process.ended) write_beat(process.line);
    if (process.ended && now - *process.ended >= liveness_) ended.push_back(number);
  }
  for (const MemberNumber number : ended) end_process(number);
  std::set<std::shared_ptr<Line>> silent;
  for (const auto& line : visitors_) write_beat(line);
  for (const auto& [number, line] : asked_) {
    if (line->is_silent(now, liveness_)) silent.insert(line);
  }
  for (const auto& line : silent) lose_host(line);
}

/// The host of a process that has asked for numbers is lost, with those that it has asked for: the others go on.
void MasterServer::Impl::lose_host(const std::shared_ptr<Line>& line) {
  std::vector<MemberNumber> lost;
  for (const auto& [number, by] : asked_) {
    if (by == line) lost.push_back(number);
  }
  tell(text("nothing comes from the host of ", members_in_words(lost), " for ", to_text(liveness_),
            ": lost; others may come in the place of these once it is back"));
  for (const MemberNumber number : lost) {
    lost_with_host_.insert(number);
    if (lines_.contains(number)) gone_with_host_.insert(number);
    if (!known()->view.has(number)) {  // a member hears by the next view that it is none any more
      say(number, MasterWords::of_refusal("its host was silent, and the others go on without it"));
    }
    lose(number);
  }
  line->cancel();
}

asio::awaitable<void> MasterServer::Impl::attend(std::shared_ptr<Line> line, std::string version) {
  visitors_.insert(line);
  if (version != version_here()) {
    std::string why = text("version is ", version, " here, and ", version_here(), " in the job");
    co_await refuse(line, std::move(why));
    line->cancel();
    visitors_.erase(line);
    co_return;
  }
  if (liveness_ > Duration::zero()) write_beat(line);  // by it the other side knows what a silence is
  auto words = co_await line->read<ProcessWords>();
  while (words && !closed_ && words->kind != ProcessWords::Kind::hello) {
    answer(line, *words);
    words = co_await line->read<ProcessWords>();
  }
  if (closed_) co_return line->cancel();
  visitors_.erase(line);
  if (words) {
    co_await attend_member(line, *words);
  } else {
    line->cancel();
  }
  end_visit(line);
}

void MasterServer::Impl::answer(const std::shared_ptr<Line>& line, const ProcessWords& words) {
  switch (words.kind) {
    case ProcessWords::Kind::come: {
      const auto given = places_.give(words.wish);
      if (!given) {
        return line->write(
            MasterWords::of_refusal(text("all of the ", places_.places(), " places of the job are taken")));
      }
      asked_[given->number] = line;
      MasterWords place = MasterWords::of(MasterWords::Kind::place, given->number);
      place.place = given->place;
      place.places = places_.places();
      return line->write(place);
    }
    case ProcessWords::Kind::ended:
      if (const auto found = asked_.find(words.number); found != asked_.end() && found->second == line)
        lose(words.number);
      return;
    case ProcessWords::Kind::look: return line->write(standing());
    case ProcessWords::Kind::beat: return;
    case ProcessWords::Kind::has:
      if (lost_with_host_.contains(words.number)) {
        return line->write(MasterWords::of(MasterWords::Kind::lost, words.number));
      }
      asked_[words.number] = line;
      places_.has_come(words.number, words.wish);
      return;
    case ProcessWords::Kind::send: return send_away(words.number);
    default: return line->cancel();  // words of members
  }
}

/// Numbers with which nobody has come are lost, and those whose own lines have ended. Nobody hears of the others any
/// more.
void MasterServer::Impl::end_visit(const std::shared_ptr<Line>& line) {
  visitors_.erase(line);
  std::vector<MemberNumber> unused;
  std::erase_if(asked_, [&](const auto& asked) {
    if (asked.second != line) return false;
    const auto found = lines_.find(asked.first);
    const bool is_there = found != lines_.end() && (!found->second.ended || may_come_back(line));
    if (!is_there) unused.push_back(asked.first);
    return true;
  });
  for (const MemberNumber number : unused) lose(number);
}

MasterWords MasterServer::Impl::standing() const {
  MasterWords words = MasterWords::of(MasterWords::Kind::stands);
  words.content = known();
  words.beside = {.spares = master_.master().spares(), .waits = master_.master().waiting(), .program = program_};
  return words;
}

asio::awaitable<void> MasterServer::Impl::attend_member(std::shared_ptr<Line> line, ProcessWords first) {
  const MemberNumber number = first.hello.number;
  places_.has_come(number);
  std::string why_not;
  const auto before = lines_.find(number);
  if (before != lines_.end() && before->second.name != first.words) {
    why_not = text("member ", number, " is another process, which is there");
  }
  if (const auto reports = first.hello.terms.find(kReportsTo); reports != first.hello.terms.end() && !reads_reports_) {
    why_not = text("it reports to ", reports->second, " alone, which has not started this job");
  }
  if (!why_not.empty()) {
    co_await refuse(line, std::move(why_not));
    co_return;
  }
  if (before != lines_.end()) {
    before->second.line->cancel();  // nothing passes there any more, though nobody may have said so here
  }
  lines_[number] = {.line = line, .name = first.words};
  gone_with_host_.erase(number);
  line->write(MasterWords{.kind = MasterWords::Kind::tell, .content = known()});  // a master listens here
  if (sent_away_.contains(number)) line->write(MasterWords::of(MasterWords::Kind::leave));
  master_.hear(number, first);
  auto words = co_await line->read<ProcessWords>();
  for (; words && !closed_; words = co_await line->read<ProcessWords>()) {
    if (words->kind == ProcessWords::Kind::result) {
      reports_[number] = std::move(words->words);
      keep_reports();
    } else {
      master_.hear(number, *words);
    }
  }
  const auto now = lines_.find(number);
  if (closed_ || now == lines_.end() || now->second.line != line) co_return;  // it has come again
  if (words.error().code == Errc::bad_input) {
    tell(text("member ", number, ": ", words.error().message));
  } else if (may_come_back(line)) {
    now->second.ended = clock_.now();
    co_return;
  }
  end_process(number);
}

asio::awaitable<void> MasterServer::Impl::refuse(std::shared_ptr<Line> line, std::string why) {
  line->write(MasterWords::of_refusal(std::move(why)));
  auto words = co_await line->read<ProcessWords>();
  while (words && !closed_) words = co_await line->read<ProcessWords>();
}

MasterServer::MasterServer(NetworkThread& network, Door& door, Register& reg, const MasterServerOptions& options,
                           MasterHooks hooks)
    : network_(network), door_(door), impl_(std::make_shared<Impl>(network.io(), reg, options, std::move(hooks))) {
  network.run([this] { impl_->begin(); });
  door.receive(Hello::Use::member,
               [impl = impl_](const Hello& hello, tcp::socket socket) { impl->come(hello, std::move(socket)); });
}

MasterServer::~MasterServer() {
  door_.receive(Hello::Use::member, nullptr);
  network_.run([this] { impl_->close(); });
}

void MasterServer::lose(MemberNumber number) {
  network_.run([&] { impl_->lose(number); });
}

std::optional<GivenPlaces::Given> MasterServer::give_place(std::optional<int> wish) {
  std::optional<GivenPlaces::Given> given;
  network_.run([&] { given = impl_->give_place(wish); });
  return given;
}

void MasterServer::send_away(MemberNumber number) {
  network_.run([&] { impl_->send_away(number); });
}

Result<std::map<MemberNumber, std::string>> MasterServer::reports() {
  Result<std::map<MemberNumber, std::string>> reports(Error{});
  network_.run([&] { reports = impl_->reports(); });
  return reports;
}

std::size_t MasterServer::visitors() {
  std::size_t visitors = 0;
  network_.run([&] { visitors = impl_->visitors(); });
  return visitors;
}

void MasterServer::hold_office(TimePoint until) {
  network_.run([&] { impl_->hold_office(until); });
}

Registered MasterServer::known() {
  Registered known;
  network_.run([&] { known = *impl_->known(); });
  return known;
}

}  // namespace stretto
