#include "stretto/collective/schedules/line_schedule.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/schedule/builder.h"

namespace stretto {

Schedule line_round_schedule(int rank, std::span<const int> members, int ranks, std::span<const BucketSpec> buckets) {
  const int nodes = static_cast<int>(members.size());
  const int me = static_cast<int>(std::ranges::find(members, rank) - members.begin());
  ScheduleBuilder b("line", me, nodes);
  const LineBuffers buffers(buckets.size(), nodes);
  const auto slice_of = [&](std::size_t bucket, int slice) {
    const Part of = part(buckets[bucket].count, slice, nodes);
    return Slice{buffers.model(bucket), of.begin, of.count()};
  };
  for (std::size_t i = 0; i < buckets.size(); ++i) b.buffer(text("model.", i), buckets[i].type, buckets[i].count);
  for (int slice = 0; slice < nodes; ++slice) {
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      b.buffer(text("mean.", slice, '.', i), buckets[i].type, slice_of(i, slice).count);
    }
  }
  for (int node = 0; node < nodes; ++node) {
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      b.scratch(text("from.", node, '.', i), buckets[i].type, slice_of(i, me).count);
    }
  }

  // The channel of a bucket's contributions, and behind those of all buckets that of its means.
  const auto channel = [&](std::size_t bucket, bool mean) {
    return static_cast<int>(bucket + (mean ? buckets.size() : 0));
  };
  const auto with_header = [&](OpId op, std::size_t bucket) {
    if (bucket == 0) b.with_header(op);
    return op;
  };
  // Each begins with the one behind it, so that nobody is the first of all.
  const auto peer = [&](int distance) { return (me + distance) % nodes; };

  const auto call = [&](LineHook::Kind kind, int node, std::vector<OpId> after) {
    return b.call(LineHook{kind, node}.encode(), std::move(after));
  };
  const OpId begin = call(LineHook::Kind::begin, me, {});
  std::vector<OpId> ways;
  for (int distance = 1; distance < nodes; ++distance) {
    std::vector<OpId> parts, sends;
    ways.push_back(call(LineHook::Kind::way, peer(distance), {}));
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      const OpId send = b.send(peer(distance), channel(i, false), slice_of(i, peer(distance)), {ways.back()});
      sends.push_back(with_header(send, i));
      const Slice into = b.whole(buffers.from(peer(distance), i));
      parts.push_back(with_header(b.recv(peer(distance), channel(i, false), into, {}), i));
    }
    call(LineHook::Kind::contribution, peer(distance), parts);
    call(LineHook::Kind::sent, peer(distance), sends);
  }
  const OpId average = b.nop({});
  b.external(average).label(average, "average");
  for (int distance = 1; distance < nodes; ++distance) {
    std::vector<OpId> parts, sends;
    const OpId way = ways[static_cast<std::size_t>(distance) - 1];
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      const OpId send = b.send(peer(distance), channel(i, true), b.whole(buffers.mean_of(me, i)), {average, way});
      sends.push_back(with_header(send, i));
      const Slice into = b.whole(buffers.mean_of(peer(distance), i));
      parts.push_back(with_header(b.recv(peer(distance), channel(i, true), into, {begin}), i));
    }
    call(LineHook::Kind::mean, peer(distance), parts);
    call(LineHook::Kind::sent, peer(distance), sends);
  }
  const OpId complete = b.nop({});
  b.external(complete).label(complete, "complete");
  return b.build(complete).among(members, ranks);
}

}  // namespace stretto
