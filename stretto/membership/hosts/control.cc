#include "stretto/membership/hosts/control.h"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "stretto/base/words.h"
#include "stretto/membership/hosts/line.h"

namespace stretto {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kToLeave{2};

}  // namespace

/// The network's thread, but for the futures.
class Control::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(std::shared_ptr<Line> line, int rank) : line_(std::move(line)), rank_(rank) {}

  asio::awaitable<void> listen();
  void write(const json& words) {
    if (!ended_) line_->write(words);
  }
  /// Nothing: rank 0 is not there.
  std::future<std::optional<std::uint64_t>> ask(json words) {
    words["id"] = ++asked_;
    auto& answer = answers_[asked_];
    if (ended_) answer.set_value(std::nullopt);
    write(words);
    return answer.get_future();
  }
  void on_lost(Lost lost) {
    lost_ = std::move(lost);
    if (!lost_) return;
    for (const Error& why : std::exchange(untold_, {})) lost_(why);
  }
  void leave() {
    left_ = true;
    write({{"left", true}});
  }
  std::shared_future<void> over() const { return over_; }
  void close() {
    lost_ = nullptr;
    line_->close();
  }

 private:
  void hear(const json& words);
  void tell(const Error& why) {
    if (lost_) return lost_(why);
    untold_.push_back(why);
  }

  const std::shared_ptr<Line> line_;
  const int rank_;
  Lost lost_;
  std::vector<Error> untold_;
  std::map<std::uint64_t, std::promise<std::optional<std::uint64_t>>> answers_;
  std::uint64_t asked_ = 0;
  std::promise<void> ends_;
  const std::shared_future<void> over_ = ends_.get_future().share();
  bool left_ = false;
  bool ended_ = false;
};

asio::awaitable<void> Control::Impl::listen() {
  while (const auto words = co_await line_->read()) hear(*words);
  ended_ = true;
  for (auto& [id, answer] : answers_) answer.set_value(std::nullopt);
  answers_.clear();
  if (!left_) tell({Errc::lost_peer, "rank 0 is lost: its connection has ended", 0});
  ends_.set_value();
}

void Control::Impl::hear(const json& words) {
  if (words.contains("was")) {
    const auto answer = answers_.find(words.value("id", std::uint64_t{0}));
    if (answer == answers_.end()) return;
    answer->second.set_value(words.value("was", std::uint64_t{0}));
    answers_.erase(answer);
  } else if (words.contains("over")) {
    left_ = true;
  } else if (const int lost = words.value("lost", -1); lost >= 0 && lost != rank_) {
    const std::string why = words.value("why", "");
    tell(why.empty() ? Error{Errc::lost_peer,
                             text("rank ", lost, " is lost: ", words.value("how", "its connection ended")), lost}
                     : Error{Errc::aborted, text("rank ", lost, " stopped the job: ", why), lost});
  }
}

Control::Control(NetworkThread& network, std::shared_ptr<Line> line, int rank)
    : network_(network), impl_(std::make_shared<Impl>(std::move(line), rank)) {
  asio::co_spawn(
      network.io(), [impl = impl_] { return impl->listen(); }, asio::detached);
}

Control::~Control() {
  network_.run([this] { impl_->close(); });
}

std::uint64_t Control::fetch_add(int counter, std::uint64_t amount) {
  std::future<std::optional<std::uint64_t>> answer;
  network_.run([&] { answer = impl_->ask({{"add", counter}, {"by", amount}}); });
  const auto was = answer.get();
  if (!was) throw Failure({Errc::lost_peer, "rank 0, which has the counters of the job, is lost", 0});
  return *was;
}

void Control::report(const std::string& text) {
  network_.run([&] { impl_->write({{"report", text}}); });
}

void Control::on_lost(Lost lost) {
  network_.run([&] { impl_->on_lost(std::move(lost)); });
}

void Control::say_why(const std::string& why) {
  network_.run([&] { impl_->write({{"why", why}}); });
}

void Control::leave() {
  network_.run([this] { impl_->leave(); });
  impl_->over().wait_for(kToLeave);
}

}  // namespace stretto
