#include "python/binding/py_job.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "python/binding/interpreter.h"
#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/membership/hosts/bulletin.h"
#include "stretto/membership/views/member_place.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stretto::python {

PyJob::PyJob(const JoinOptions& options)
    : rank_(options.rank),
      ranks_(options.ranks),
      members_change_(options.member != nullptr),
      joined_(join_job(options).or_throw()) {}

int PyJob::rank() {
  look_at_world();
  return rank_;
}

int PyJob::ranks() {
  look_at_world();
  return ranks_;
}

void PyJob::look_at_world() {
  if (!members_change_ || left_) return;
  rank_ = context().rank();
  ranks_ = context().size();
}

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
  if (!why.empty() && !members_change_) joined_->context().complain({Errc::aborted, why, rank_});
  left_ = true;
  joined_.reset();
}

namespace {

constexpr const char* kMeeting = "meeting";  // the key of rank 0's address

/// A store of torch.distributed. Nothing here holds the lock but while Python is called.
class PyBulletin final : public Bulletin {
 public:
  PyBulletin(int rank, int ranks, nb::object store) : Bulletin(rank, ranks), store_(std::move(store)) {}
  ~PyBulletin() override {
    const nb::gil_scoped_acquire lock;
    store_.reset();
  }
  Result<void> publish(const std::string& words) override {
    return asked([&]() -> Result<void> {
      store_.attr("set")(kMeeting, words);
      return {};
    });
  }
  Result<std::string> look_up() override {
    return asked([&]() -> Result<std::string> {
      if (!nb::cast<bool>(store_.attr("check")(std::vector<std::string>{kMeeting}))) return std::string();
      const nb::bytes found(store_.attr("get")(kMeeting));
      return std::string(found.c_str(), found.size());
    });
  }

 private:
  template <class Ask>
  std::invoke_result_t<Ask> asked(Ask ask) {
    const nb::gil_scoped_acquire lock;
    try {
      return ask();
    } catch (const nb::python_error& error) {
      return Error{Errc::io, text("the store of torch.distributed: ", error.what())};
    }
  }

  nb::object store_;
};

}  // namespace

void bind_job(nb::module_& module) {
  nb::class_<JoinOptions>(module, "Place", "A process's place among the ranks of a job.")
      .def(
          "__init__",
          [](JoinOptions* self, int rank, int ranks, std::string job, nb::object store) {
            auto* made = new (self) JoinOptions{.rank = rank, .ranks = ranks, .job = std::move(job)};
            made->bulletin = given_meeting(rank, ranks);
            if (made->bulletin == nullptr && !store.is_none()) {
              made->bulletin = std::make_shared<PyBulletin>(rank, ranks, std::move(store));
            }
          },
          "rank"_a, "ranks"_a, "job"_a, "store"_a = nb::none(),
          "`store`: where ranks are on several hosts, a store of torch.distributed, by which they meet unless they are "
          "told where (STRETTO_MEETING).")
      .def_ro("rank", &JoinOptions::rank, "0 … ranks − 1.")
      .def_ro("ranks", &JoinOptions::ranks, "Ranks of the job.")
      .def_ro("job", &JoinOptions::job, "The job's name, the same on all its ranks.")
      .def_prop_ro(
          "members_change", [](const JoinOptions& self) { return self.member != nullptr; },
          "Whether members of the job may come and be lost: then `rank` is the number by which the job knows this "
          "process, and there are `ranks` at a time at most.")
      .def_prop_ro(
          "several_hosts", [](const JoinOptions& self) { return self.bulletin != nullptr; },
          "Whether the ranks meet by the network.");
  module.def("is_member", &launched_as_member, "Whether `stretto run --ranks MIN:MAX` has started this process.");
  module.def("find_place", &join_options_by_environment,
             "The place that a launcher has put into the environment, or that of a process alone.");
  nb::class_<PyJob>(module, "Job", "This process's rank of a job.")
      .def(
          "__init__",
          [](PyJob* self, const JoinOptions& place, double timeout, std::optional<double> liveness,
             std::string between) {
            JoinOptions options = place;
            options.timeout = from_seconds(timeout);
            if (liveness) options.liveness = from_seconds(*liveness);
            options.between = std::move(between);
            options.look = look_for_signals;
            const Unlocked unlocked;
            new (self) PyJob(options);
          },
          "place"_a, "timeout"_a, "liveness"_a = nb::none(), "between"_a = "",
          "Meets the other ranks of the job, each a process of its own, within `timeout` seconds. `liveness`, in "
          "seconds, "
          "and `between`: as those of init(); left open as the environment says.")
      .def_prop_ro("rank", &PyJob::rank, nb::call_guard<Unlocked>(),
                   "This rank's number, 0 … ranks − 1; this and the next three of the present members, where they "
                   "change.")
      .def_prop_ro("ranks", &PyJob::ranks, nb::call_guard<Unlocked>(), "Ranks of the job.")
      .def_prop_ro("local_rank", &PyJob::local_rank, nb::call_guard<Unlocked>(),
                   "This rank's number among those of its host.")
      .def_prop_ro("local_ranks", &PyJob::local_ranks, nb::call_guard<Unlocked>(), "Ranks of this host.")
      .def_prop_ro("members_change", &PyJob::members_change, "Whether members of the job may come and be lost.")
      .def("leave", &PyJob::leave, nb::call_guard<Unlocked>(), "Says goodbye to the other ranks.")
      .def("abandon", &PyJob::abandon, nb::call_guard<Unlocked>(), "why"_a,
           "Goes without a goodbye: the other ranks hear why, or that this one is lost where `why` is empty.");
}

}  // namespace stretto::python
