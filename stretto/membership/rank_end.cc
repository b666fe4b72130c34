#include "stretto/membership/rank_end.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <iostream>
#include <new>
#include <thread>
#include <utility>

#include "stretto/base/words.h"

namespace stretto {
namespace {

/// So long a rank that ends because of another gives that one to say why.
constexpr std::chrono::seconds kTimeForTheCause{3};

/// What the handler of `new` does, which takes no argument. Written before the handler is installed.
std::function<void()> say_no_memory;
int status_without_memory = 1;

[[noreturn]] void no_memory() {
  static std::atomic<bool> first{true};
  if (first.exchange(false)) {
    say_no_memory();
  } else {
    std::this_thread::sleep_for(kTimeForTheCause);  // another thread says it, and ends the process
  }
  _exit(status_without_memory);
}

}  // namespace

int process_status(int status) {
  return status == 0 || (status & 0xff) != 0 ? status & 0xff : 1;
}

RankMessage message_of(const Error& error, int rank) {
  const bool of_another = error.rank >= 0 && error.rank != rank;
  const bool follows = of_another && (error.code == Errc::lost_peer || error.code == Errc::aborted);
  return {follows ? RankMessage::Kind::consequence : RankMessage::Kind::cause, error.message};
}

RankMessage message_of_exception(int rank) {
  const auto said = [rank](const std::string& what) { return text("rank ", rank, ": ", what); };
  try {
    throw;
  } catch (const Failure& failure) {
    return {message_of(failure.error(), rank).kind, said(failure.what())};
  } catch (const std::exception& error) {
    return {RankMessage::Kind::cause, said(json_fault(error))};
  } catch (...) {
    return {RankMessage::Kind::cause, said("threw what is no std::exception")};
  }
}

void tell_why(const RankMessage& why, SharedCounter& told) {
  const bool cause = why.kind == RankMessage::Kind::cause;
  if (!cause) std::this_thread::sleep_for(kTimeForTheCause);
  const bool first = told.fetch_add(1) == 0;
  if (first) std::cerr << text("stretto: ", why.text, "\n") << std::flush;
  if (cause && !first) std::this_thread::sleep_for(kTimeForTheCause);  // for the one that was first, to be heard
}

void end_without_memory(std::function<void()> say, int status) {
  say_no_memory = std::move(say);
  status_without_memory = status;
  std::set_new_handler(no_memory);
}

std::string second_report(int rank) {
  return text("rank ", rank, " reports a second time: RankContext::report() takes one text");
}

}  // namespace stretto
