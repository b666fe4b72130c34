#include "stretto/predict/model/training_job.h"

namespace stretto {

const char* name_of(LinkSharing sharing) {
  return sharing == LinkSharing::equal_shares ? "ps" : "fcfs";
}

const char* name_of(Coordination mode) {
  switch (mode) {
    case Coordination::asynchronous: return "async";
    case Coordination::synchronous: return "sync";
    case Coordination::allreduce: return "allreduce";
  }
  return "unknown";
}

std::int64_t TrainingJob::workers() const {
  std::int64_t sum = 0;
  for (const WorkerClass& workers : classes) sum += workers.count;
  return sum;
}

}  // namespace stretto
