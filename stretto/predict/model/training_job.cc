#include "stretto/predict/model/training_job.h"

namespace stretto {

const char* name_of(LinkSharing sharing) {
  return sharing == LinkSharing::equal_shares ? "ps" : "fcfs";
}

std::int64_t TrainingJob::workers() const {
  std::int64_t sum = 0;
  for (const WorkerClass& workers : classes) sum += workers.count;
  return sum;
}

}  // namespace stretto
