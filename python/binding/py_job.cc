#include "python/binding/py_job.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <chrono>

#include "python/binding/errors.h"
#include "python/binding/interpreter.h"
#include "stretto/base/error.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stretto::python {

PyJob::PyJob(const JoinOptions& options)
    : rank_(options.rank), ranks_(options.ranks), joined_(join_job(options).or_throw()) {}

RankContext& PyJob::context() {
  if (left_) throw UsageError("this process has left its job: expected nothing more after shutdown()");
  return joined_->context();
}

void PyJob::leave() {
  if (left_) return;
  end_parts();
  left_ = true;
  joined_->leave(Duration(0));  // no rank of Python reports anything, for which the first would wait
}

void PyJob::end_parts() {
  for (const auto& [part, end] : std::exchange(parts_, {})) end();
}

void PyJob::abandon(const std::string& why) {
  if (left_) return;
  end_parts();
  if (!why.empty()) joined_->context().complain({Errc::aborted, why, rank_});
  left_ = true;
  joined_.reset();
}

void bind_job(nb::module_& module) {
  nb::class_<JoinOptions>(module, "Place", "A process's place among the ranks of a job.")
      .def(
          "__init__",
          [](JoinOptions* self, int rank, int ranks, std::string job) {
            new (self) JoinOptions{.rank = rank, .ranks = ranks, .job = std::move(job)};
          },
          "rank"_a, "ranks"_a, "job"_a)
      .def_ro("rank", &JoinOptions::rank, "0 … ranks − 1.")
      .def_ro("ranks", &JoinOptions::ranks, "Ranks of the job.")
      .def_ro("job", &JoinOptions::job, "The job's name, the same on all its ranks.");
  module.def("find_place", &join_options_by_environment,
             "The place that a launcher has put into the environment, or that of a process alone.");
  nb::class_<PyJob>(module, "Job", "This process's rank of a job.")
      .def(
          "__init__",
          [](PyJob* self, int rank, int ranks, const std::string& name, double timeout) {
            const Unlocked unlocked;
            new (self) PyJob({.rank = rank,
                              .ranks = ranks,
                              .job = name,
                              .timeout = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(timeout)),
                              .look = look_for_signals});
          },
          "rank"_a, "ranks"_a, "name"_a, "timeout"_a,
          "Meets the other ranks of the job `name`, each a process of its own on this host, within `timeout` seconds.")
      .def_prop_ro("rank", &PyJob::rank, "This rank's number, 0 … ranks − 1.")
      .def_prop_ro("ranks", &PyJob::ranks, "Ranks of the job.")
      .def("leave", &PyJob::leave, nb::call_guard<Unlocked>(), "Says goodbye to the other ranks.")
      .def("abandon", &PyJob::abandon, nb::call_guard<Unlocked>(), "why"_a,
           "Goes without a goodbye: the other ranks hear why, or that this one is lost where `why` is empty.");
}

}  // namespace stretto::python
