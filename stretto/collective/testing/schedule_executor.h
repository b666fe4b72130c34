#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "stretto/base/random.h"
#include "stretto/observe/round_header.h"
#include "stretto/schedule/schedule.h"

namespace stretto {

/// For tests: runs one round of the schedules of all ranks, one small event after the other in an order drawn from a
/// seed, as schedule.h says they behave and in nothing kinder: a body is read only when its send finishes, messages
/// keep their order within a pair of ranks alone, memory starts as garbage, and one rank drawn from the seed does
/// something only when no other rank can.
class ScheduleExecutor {
 public:
  ScheduleExecutor(std::span<const Schedule> schedules, std::uint64_t seed);

  /// Binds a given buffer; `content` null: memory for a result, empty at first.
  template <class T>
  void give(int rank, BufferId buffer, const std::vector<T>* content) {
    auto& memory = ranks_[index(rank)].buffers[buffer];
    memory.present = content != nullptr;
    if (content == nullptr || content->empty()) return;
    std::memcpy(memory.bytes.data(), content->data(), content->size() * sizeof(T));
  }
  template <class T>
  std::vector<T> read(int rank, BufferId buffer) const {
    const auto& bytes = ranks_[index(rank)].buffers[buffer].bytes;
    std::vector<T> out(bytes.size() / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }
  bool present(int rank, BufferId buffer) const { return ranks_[index(rank)].buffers[buffer].present; }
  RoundHeader& header(int rank, BufferId buffer) { return ranks_[index(rank)].headers[buffer]; }

  void trigger(int rank, OpId op) { count_down(rank, op); }
  /// Called when a call operation fires; it finishes at once.
  std::function<void(int rank, OpId op)> on_call = [](int, OpId) {};

  /// Goes on until nothing can happen any more.
  void run();

  bool finished(int rank, OpId op) const { return ranks_[index(rank)].ops[op].finished; }
  bool complete(int rank) const { return finished(rank, schedules_[index(rank)].completion()); }
  /// Messages sent by a rank, and the bytes of their bodies.
  int messages_sent(int rank) const { return ranks_[index(rank)].messages; }
  std::uint64_t bytes_sent(int rank) const { return ranks_[index(rank)].bytes; }

 private:
  struct Memory {
    std::vector<std::byte> bytes;
    bool present = false;
  };
  struct Message {
    OpId send = kNoOp;
    OpId recv = kNoOp;
    bool present = false;
    std::vector<std::byte> body;
    RoundHeader header;
  };
  struct OpState {
    std::uint32_t missing = 0;
    bool fired = false;
    bool finished = false;
    bool arrived = false;
    Message message;
  };
  struct Rank {
    std::vector<Memory> buffers;
    std::vector<RoundHeader> headers;  // one a buffer
    std::vector<OpState> ops;
    int messages = 0;
    std::uint64_t bytes = 0;
  };
  struct Event {
    enum class Kind { fire, leave, arrive } kind;
    int rank;  // where it happens
    int peer;  // leave: the receiver; arrive: the sender
    OpId op;   // fire
  };

  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  Event draw();
  void count_down(int rank, OpId op);
  void finish(int rank, OpId op);
  void fire(int rank, OpId op);
  void leave(int src, int dst);
  void arrive(int src, int dst);
  void accept(int rank, OpId op);
  void copy(int rank, const Op& op, const Slice& from);
  void move(int rank, const Op& op);
  std::span<std::byte> memory(int rank, const Slice& slice);

  std::span<const Schedule> schedules_;
  Random random_;
  int slow_rank_;
  std::vector<Rank> ranks_;
  std::vector<std::map<OpId, OpId>> recv_of_;                         // by sender
  std::map<std::pair<int, int>, std::deque<Message>> posted_, left_;  // by sender and receiver
  std::vector<Event> events_;
};

}  // namespace stretto
