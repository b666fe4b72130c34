#include "stretto/membership/hosts/bulletins/pmi_bulletin.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <string_view>
#include <system_error>
#include <utility>

#include "stretto/base/words.h"
#include "stretto/membership/hosts/bulletins/at_exit.h"

namespace stretto {
namespace {

constexpr std::size_t kLongestLine = 4096;
constexpr int kLongestAnswer = 1000;  // ms, for the last one
constexpr const char* kPmiKey = "stretto-meeting";

/// The word behind "name=", up to the next blank; empty where there is none.
std::string value_in(const std::string& line, const std::string& name) {
  const std::string given = ' ' + line;
  const std::size_t at = given.find(' ' + name + '=');
  if (at == std::string::npos) return {};
  const std::size_t begin = at + name.size() + 2;
  return given.substr(begin, given.find(' ', begin) - begin);
}

}  // namespace

PmiBulletin::PmiBulletin(int rank, int ranks, int descriptor)
    : Bulletin(rank, ranks), descriptor_(std::make_shared<Descriptor>(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0))) {}

void PmiBulletin::end() {
  const SteadyClock clock;
  if (step_ == Step::begin || std::exchange(has_ended_, true)) return;  // it speaks otherwise, or not at all
  if (asked_ && !answer(clock.now() + kLongestCall)) return;  // no meeting: then the job ends, and so does this rank
  at_exit_of_process([descriptor = descriptor_] {
    constexpr std::string_view kLast = "cmd=finalize\n";
    if (::send(descriptor->get(), kLast.data(), kLast.size(), MSG_NOSIGNAL) <= 0) return;
    // hydra ends the job where it cannot answer. An MPI that has ended before has been answered, too.
    pollfd readable{.fd = descriptor->get(), .events = POLLIN, .revents = 0};
    char answer[512];
    if (::poll(&readable, 1, kLongestAnswer) > 0) (void)!::read(descriptor->get(), answer, sizeof answer);
  });
}

Error PmiBulletin::broken(Errc errc, const std::string& how) const {
  return {errc, text("the process manager (PMI-1): ", how)};
}

Result<void> PmiBulletin::publish(const std::string& words) {
  words_ = words;
  const SteadyClock clock;
  if (auto there = go_on(Step::barrier, clock.now() + kLongestCall); !there) return there;
  return asked_ ? Result<void>() : ask(question());  // the answer comes when all have met
}

Result<std::string> PmiBulletin::look_up() {
  const SteadyClock clock;
  const TimePoint until = clock.now() + kLongestCall;
  if (auto there = go_on(Step::barrier, until); !there) return there.error();
  if (auto there = go_on(Step::get, until); !there) {
    if (there.error().code == Errc::unavailable) return std::string();  // not all have come to the barrier
    return there.error();
  }
  if (auto there = go_on(Step::done, until); !there) return there.error();
  return words_;
}

Result<void> PmiBulletin::go_on(Step last, TimePoint until) {
  while (step_ < last) {
    if (!asked_) {
      if (auto asked = ask(question()); !asked) return asked;
    }
    const auto line = answer(until);
    if (!line) return line.error();
    if (auto taken = take(*line); !taken) return taken;
  }
  return {};
}

std::string PmiBulletin::question() const {
  switch (step_) {
    case Step::begin: return "cmd=init pmi_version=1 pmi_subversion=1";
    case Step::limits: return "cmd=get_maxes";
    case Step::space: return "cmd=get_my_kvsname";
    case Step::put: return text("cmd=put kvsname=", space_, " key=", kPmiKey, " value=", words_);
    case Step::barrier: return "cmd=barrier_in";
    case Step::get:
    case Step::done: break;
  }
  return text("cmd=get kvsname=", space_, " key=", kPmiKey);
}

Result<void> PmiBulletin::ask(const std::string& line) {
  const std::string sent = line + '\n';
  if (::send(descriptor_->get(), sent.data(), sent.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(sent.size())) {
    return broken(Errc::io, std::system_category().message(errno));
  }
  asked_ = true;
  return {};
}

Result<std::string> PmiBulletin::answer(TimePoint until) {
  const SteadyClock clock;
  while (true) {
    if (const std::size_t end = received_.find('\n'); end != std::string::npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      asked_ = false;
      return line;
    }
    if (received_.size() > kLongestLine) return broken(Errc::io, "its answer has no end");
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::max(Duration::zero(), until - clock.now()));
    pollfd readable{.fd = descriptor_->get(), .events = POLLIN, .revents = 0};
    if (::poll(&readable, 1, static_cast<int>(left.count())) <= 0) {
      if (clock.now() < until) continue;
      return broken(Errc::unavailable, text("it does not answer '", question(), '\''));
    }
    char bytes[512];
    const ssize_t got = ::read(descriptor_->get(), bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return broken(Errc::io, std::system_category().message(errno));
    if (got == 0) return broken(Errc::io, "it has closed the connection");
    received_.append(bytes, static_cast<std::size_t>(got));
  }
}

Result<void> PmiBulletin::take(const std::string& line) {
  constexpr const char* kAnswers[] = {"response_to_init", "maxes",       "my_kvsname",
                                      "put_result",       "barrier_out", "get_result"};
  const std::string result = value_in(line, "rc");
  if (value_in(line, "cmd") != kAnswers[static_cast<int>(step_)] || (!result.empty() && result != "0")) {
    return broken(Errc::io, text("it answers '", line, "' to '", question(), '\''));
  }
  if (step_ == Step::limits) {
    const std::string most = value_in(line, "vallen_max");
    std::size_t bytes = kMostBytes + 1;
    (void)std::from_chars(most.data(), most.data() + most.size(), bytes);
    if (words_.size() >= bytes) {
      return broken(Errc::io, text("it keeps values of ", bytes, " bytes, and rank 0's address has ", words_.size()));
    }
  }
  if (step_ == Step::space) space_ = value_in(line, "kvsname");
  if (step_ == Step::get) words_ = value_in(line, "value");
  step_ = static_cast<Step>(static_cast<int>(step_) + 1);
  if (step_ == Step::put && rank() != 0) step_ = Step::barrier;
  return {};
}

}  // namespace stretto
