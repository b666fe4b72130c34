#pragma once

#include <pthread.h>
#include <semaphore.h>

#include "stretto/base/error.h"

namespace stretto {

/// For tests: a thread that sleeps until this ends. Its stack is smaller than those of other threads. In a forked
/// process, where it does not run, the C library has its stack for the next thread that fits on it, with the same
/// pthread_t; the thread sanitizer, which still knows the sleeper by that, would end the process.
class SleepingThread {
 public:
  SleepingThread() {
    sem_init(&over_, 0, 0);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, std::size_t{256} << 10);
    const int error = pthread_create(&thread_, &attributes, sleep, this);
    pthread_attr_destroy(&attributes);
    STRETTO_CHECK(error == 0, "pthread_create: ", error);
  }
  ~SleepingThread() {
    sem_post(&over_);
    pthread_join(thread_, nullptr);
    sem_destroy(&over_);
  }
  SleepingThread(const SleepingThread&) = delete;
  SleepingThread& operator=(const SleepingThread&) = delete;

 private:
  static void* sleep(void* self) {
    while (sem_wait(&static_cast<SleepingThread*>(self)->over_) != 0) {  // a signal
    }
    return nullptr;
  }

  sem_t over_{};  // the thread sanitizer delivers signals to a thread that waits for one, and not to a std::future's
  pthread_t thread_{};
};

}  // namespace stretto
