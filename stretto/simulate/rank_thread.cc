#include "stretto/simulate/rank_thread.h"

#include <utility>

#include "stretto/base/error.h"
#include "stretto/base/process_limit.h"

namespace stretto {

RankThread::RankThread(std::function<void()> body) : body_(std::move(body)) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStack + kGuard);  // glibc takes the guard out of it
  pthread_attr_setguardsize(&attributes, kGuard);
  const auto run = [](void* thread) -> void* {
    static_cast<RankThread*>(thread)->body_();
    return nullptr;
  };
  const int error = pthread_create(&thread_, &attributes, run, this);
  pthread_attr_destroy(&attributes);
  if (error != 0) throw Failure({Errc::unavailable, why_no_process(error)});
}

RankThread::~RankThread() {
  pthread_join(thread_, nullptr);
}

}  // namespace stretto
