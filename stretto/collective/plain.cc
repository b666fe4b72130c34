#include "stretto/collective/plain.h"

#include "stretto/collective/partial_schedule.h"
#include "stretto/collective/plain_schedules.h"

namespace stretto {
namespace {

std::string shape_of(DataType type, std::uint64_t count) {
  return text(count, ' ', name_of(type));
}

Schedule allreduce_for(const Engine& engine, const BucketSpec& bucket, ReduceOp op) {
  return allreduce_schedule(engine.rank(), engine.size(), bucket.type, bucket.count, op,
                            algorithm_for(bucket, SumOrder::fixed));
}

}  // namespace

Broadcast::Broadcast(Engine& engine, DataType type, std::uint64_t count, int root)
    : is_root_(engine.rank() == root),
      rounds_(engine, broadcast_schedule(engine.rank(), engine.size(), root, type, count),
              text(shape_of(type, count), " from rank ", root)) {}

Barrier::Barrier(Engine& engine) : rounds_(engine, barrier_schedule(engine.rank(), engine.size())) {}

Allgather::Allgather(Engine& engine, DataType type, std::uint64_t count)
    : rounds_(engine, allgather_schedule(engine.rank(), engine.size(), type, count),
              shape_of(type, count) + " a rank") {}

Allreduce::Allreduce(Engine& engine, DataType type, std::uint64_t count, ReduceOp op)
    : rounds_(engine, allreduce_for(engine, {type, count}, op), text(shape_of(type, count), " by ", name_of(op))) {}

}  // namespace stretto
