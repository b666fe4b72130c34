#include "stretto/transport/testing/conformance.h"

#include <cstring>
#include <stdexcept>

#include "stretto/base/words.h"

namespace stretto {
namespace {

using namespace std::chrono_literals;

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

std::uint64_t seed_of(int from, int to, std::uint64_t number) {
  return mix(mix(static_cast<std::uint64_t>(from) * 4096 + static_cast<std::uint64_t>(to) + 1) + number);
}

std::vector<std::byte> bytes_of(std::uint64_t seed, std::size_t size) {
  std::vector<std::byte> out(size);
  for (std::size_t at = 0; at < size; at += 8) {
    const std::uint64_t word = mix(seed + at);
    std::memcpy(out.data() + at, &word, std::min<std::size_t>(8, size - at));
  }
  return out;
}

void require(bool condition, const auto&... what) {
  if (!condition) throw std::runtime_error(text(what...));
}

struct Sizes {
  std::size_t head;
  std::size_t body;
};

/// Each rank sends each other one `messages` messages, at most `in_flight` of them unsent, and receives as many.
void all_to_all(Transport& transport, std::uint64_t messages, std::uint64_t in_flight,
                const std::function<Sizes(int from, int to, std::uint64_t number)>& sizes) {
  TestRank self(transport);
  const int ranks = transport.size();
  for (std::uint64_t number = 0; number < messages; ++number) {
    for (int step = 1; step < ranks; ++step) {
      const int peer = (transport.rank() + step) % ranks;
      const auto [head, body] = sizes(transport.rank(), peer, number);
      self.send(peer, head, body);
      self.wait([&] { return self.unsent() < in_flight; });
    }
  }
  self.wait([&] { return self.received() == messages * static_cast<std::uint64_t>(ranks - 1); });
  self.wait_for_sends();
}

void order(Transport& transport) {
  all_to_all(transport, 4000 / static_cast<std::uint64_t>(transport.size()), 64, [](int from, int to, auto number) {
    const std::uint64_t draw = seed_of(from, to, number);
    return Sizes{draw % 97, draw / 128 % 300};
  });
}

void sizes(Transport& transport) {
  static constexpr std::size_t kBodies[] = {0, 1, 7, 8, 63, 64, 4095, 4096, 4097, 65536, 1 << 20, (5 << 20) + 3};
  static constexpr std::size_t kHeads[] = {0, 1, 8, 100, kMaxHeadBytes};
  TestRank self(transport);
  if (transport.size() == 1) return;
  std::uint64_t messages = 0;
  for (const std::size_t body : kBodies) {
    for (const std::size_t head : kHeads) {
      if (body > (1 << 16) && head != 8) continue;
      self.send((transport.rank() + 1) % transport.size(), head, body);
      ++messages;
    }
  }
  self.wait([&] { return self.received() == messages; });
  self.wait_for_sends();
}

void storm(Transport& transport) {
  const auto ranks = static_cast<std::uint64_t>(transport.size());
  all_to_all(transport, 2 + 600 / (ranks * ranks), ~std::uint64_t{0}, [](int from, int to, auto number) {
    const std::uint64_t draw = seed_of(from, to, number);
    const std::size_t scale = std::size_t{1} << (draw % 18);  // log-uniform up to 256 KiB
    return Sizes{draw / 32 % 200, scale + draw / 1024 % scale};
  });
}

/// Pairs of ranks throw a small message to and fro.
void ping_pong(Transport& transport) {
  constexpr std::uint64_t kTurns = 1000;
  const int peer = transport.rank() ^ 1;
  if (peer >= transport.size()) return;
  TestRank self(transport);
  for (std::uint64_t turn = 0; turn < kTurns; ++turn) {
    if (transport.rank() % 2 == 0) self.send(peer, 8, 32);
    self.wait([&] { return self.received() > turn; });
    if (transport.rank() % 2 == 1) self.send(peer, 8, 32);
  }
  self.wait_for_sends();
}

/// A callback answers at once: a message walks round the ring of ranks, larger than what a ring of bytes holds.
void answers(Transport& transport) {
  constexpr std::uint64_t kRounds = 3;
  constexpr std::size_t kBytes = 3 << 20;
  const int ranks = transport.size();
  if (ranks == 1) return;
  const int next = (transport.rank() + 1) % ranks;
  TestRank self(transport);
  std::uint64_t left = kRounds;
  self.on_message = [&](int, const Envelope&) {
    if (--left > 0 || transport.rank() != 0) self.send(next, 64, ranks > 8 ? kBytes / 16 : kBytes);
  };
  if (transport.rank() == 0) self.send(next, 64, 1);
  self.wait([&] { return left == 0; });
  self.wait_for_sends();
}

/// Bodies that are thrown away do not disturb the messages that follow.
void discarded(Transport& transport) {
  TestRank self(transport);
  const int ranks = transport.size();
  std::uint64_t expected = 0;
  self.on_message = [&](int, const Envelope&) { self.discard = !self.discard; };
  for (const std::size_t body : {100, 5, 3 << 20, 0, 77, 4096, 1}) {
    if (ranks > 1) self.send((transport.rank() + 1) % ranks, 16, ranks > 8 ? body / 16 : body), ++expected;
  }
  self.wait([&] { return self.received() == expected; });
  self.wait_for_sends();
}

/// Nothing moves where nothing was sent, but that peers leave.
void silence(Transport& transport) {
  TestRank self(transport);
  for (int i = 0; i < 1000; ++i) {
    const std::size_t left = self.left_peers.size();
    require(!self.poll() || self.left_peers.size() > left, "poll() said something moved");
  }
}

}  // namespace

std::span<const ConformanceCase> conformance_cases() {
  static const std::vector<ConformanceCase> kCases{
      {"order", order},     {"sizes", sizes},         {"storm", storm},     {"ping_pong", ping_pong},
      {"answers", answers}, {"discarded", discarded}, {"silence", silence},
  };
  return kCases;
}

TestRank::TestRank(Transport& transport)
    : transport_(transport),
      in_(static_cast<std::size_t>(transport.size())),
      out_(static_cast<std::size_t>(transport.size())) {}

void TestRank::send(int peer, std::size_t head_bytes, std::size_t body_bytes) {
  OutgoingMessages& out = out_[static_cast<std::size_t>(peer)];
  const std::uint64_t seed = seed_of(transport_.rank(), peer, out.count);
  Envelope envelope{.description = 7, .round = out.count, .note = seed, .collective = 3, .channel = 0xff01};
  const auto head = bytes_of(~seed, head_bytes);
  out.bodies.push_back(bytes_of(seed, body_bytes));
  out.reported.push_back(false);
  ++unsent_;
  transport_.send(peer, envelope, head, out.bodies.back(), static_cast<SendToken>(peer) << 32 | out.count++);
}

bool TestRank::poll() {
  polling_ = true;
  const bool moved = transport_.poll(*this);
  polling_ = false;
  return moved;
}

void TestRank::wait(FunctionRef<bool()> done) {
  const SteadyClock clock;
  TimePoint moved = clock.now();
  while (!done()) {
    const std::uint32_t seen = transport_.doorbell().rings();
    const bool moves = poll();
    const TimePoint now = clock.now();
    if (moves) {
      moved = now;
      continue;
    }
    const TimePoint deadline = moved + 60s;
    require(now < deadline, "rank ", transport_.rank(), ": nothing has moved for a minute; received ", received(),
            ", unsent ", unsent_);
    transport_.doorbell().sleep(seen, Doorbell::Sleeper::application, std::min(deadline, transport_.poll_by()) - now);
  }
}

void TestRank::wait_for_sends() {
  wait([this] { return unsent_ == 0; });
}

std::uint64_t TestRank::received() const {
  std::uint64_t sum = 0;
  for (const Incoming& in : in_) sum += in.count;
  return sum;
}

std::byte* TestRank::begin(int peer, const Envelope& envelope, std::span<const std::byte> head) {
  Incoming& in = in_[static_cast<std::size_t>(peer)];
  const std::uint64_t seed = seed_of(peer, transport_.rank(), in.count);
  require(polling_ && !in.open && !in.gone, "begin() of rank ", peer, " out of turn");
  require(envelope.description == 7 && envelope.round == in.count && envelope.note == seed &&
              envelope.collective == 3 && envelope.channel == 0xff01 && envelope.head_bytes == head.size(),
          "message ", in.count, " of rank ", peer, " has a wrong envelope: round ", envelope.round);
  const auto expected = bytes_of(~seed, head.size());
  require(std::equal(head.begin(), head.end(), expected.begin()), "message ", in.count, " of rank ", peer,
          " has a wrong head");
  in.open = true;
  in.discarded = discard;
  in.envelope = envelope;
  in.body.assign(envelope.body_bytes, std::byte{0});
  return discard ? nullptr : in.body.data();
}

void TestRank::end(int peer) {
  Incoming& in = in_[static_cast<std::size_t>(peer)];
  require(polling_ && in.open, "end() of rank ", peer, " out of turn");
  const std::uint64_t seed = seed_of(peer, transport_.rank(), in.count);
  require(in.discarded || in.body == bytes_of(seed, in.body.size()), "message ", in.count, " of rank ", peer,
          " has a wrong body");
  in.open = false;
  ++in.count;
  if (on_message) on_message(peer, in.envelope);
}

void TestRank::sent(SendToken token) {
  OutgoingMessages& out = out_[token >> 32];
  const std::uint64_t number = token & 0xffff'ffff;
  require(polling_ && number < out.count && !out.reported[number], "send ", number, " to rank ", token >> 32,
          " reported out of turn");
  out.reported[number] = true;
  out.bodies[number] = {};
  --unsent_;
}

void TestRank::lost(int peer, const Error& reason) {
  Incoming& in = in_[static_cast<std::size_t>(peer)];
  require(polling_ && !in.gone && reason.rank == peer && reason.code == Errc::lost_peer, "lost() of rank ", peer,
          " out of turn");
  in.gone = true;
  lost_peers.emplace_back(peer, reason.message);
}

void TestRank::left(int peer) {
  Incoming& in = in_[static_cast<std::size_t>(peer)];
  require(polling_ && !in.gone, "left() of rank ", peer, " out of turn");
  in.gone = true;
  left_peers.push_back(peer);
}

}  // namespace stretto
