#include "python/binding/py_loop.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <utility>
#include <vector>

#include "python/binding/interpreter.h"
#include "stretto/base/error.h"
#include "stretto/imbalance/spec.h"
#include "stretto/train/options/option_table.h"
#include "stretto/train/recipes/recipes.h"
#include "stretto/train/replica/arithmetic.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stretto::python {
namespace {

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  const auto bytes = nb::inst_ptr<Memory>(nb::handle(self))->bytes();
  return PyBuffer_FillInfo(view, self, bytes.data(), static_cast<Py_ssize_t>(bytes.size()), /*readonly=*/0, flags);
}

PyType_Slot kSlots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

/// Name, type (a DataType), elements, trained.
using Parameter = std::tuple<std::string, int, std::uint64_t, bool>;

PyModel model_of(const std::vector<Parameter>& parameters, std::uint64_t bucket_bytes, bool gradients_stay,
                 std::string model, std::string optimizer, std::string library) {
  PyModel made{.bucket_bytes = bucket_bytes,
               .gradients_stay = gradients_stay,
               .model = std::move(model),
               .optimizer = std::move(optimizer),
               .library = std::move(library)};
  for (const auto& [name, type, count, trained] : parameters) {
    made.parameters.push_back({name, static_cast<DataType>(type), count, trained});
  }
  return made;
}

DistributedOptions options_of(const nb::dict& given) {
  const DistributedOptions defaults;
  DistributedOptions options;
  for (const JobOption& option : job_options()) {
    const std::string key = option.key();
    if (option.loop.index() == 0 || !given.contains(key.c_str()) || given[key.c_str()].is_none()) continue;
    const nb::object value = given[key.c_str()];
    const bool is_quoted = nb::isinstance<nb::str>(value) && option.kind != AlgorithmOption::Kind::word;
    std::string written = nb::cast<std::string>(is_quoted ? nb::repr(value) : nb::str(value));
    if (option.is_flag()) {
      if (!nb::isinstance<nb::bool_>(value)) throw UsageError(text(key, " ", written, ": expected True or False"));
      written = nb::cast<bool>(value) ? "true" : "false";
    }
    if (written != option.value_in(defaults)) option.set(options, key, written);
  }
  for (const auto& [name, value] :
       nb::cast<std::vector<std::pair<std::string, std::string>>>(given["algorithm_options"])) {
    options.algorithm_options.set(name, value);
  }
  return options;
}

}  // namespace

void bind_memory(nb::module_& module) {
  nb::class_<Memory>(module, "Memory", nb::type_slots(kSlots), "Bytes of the library, as a writable buffer.")
      .def("__len__", [](const Memory& memory) { return memory.bytes().size(); });
}

PyLoop::PyLoop(ReplicaObject calls, std::shared_ptr<PyJob> job, PyModel model, const DistributedOptions& options,
               Duration silence)
    : job_(std::move(job)),
      options_(overridden(options, loop_environment())),
      silence_(silence),
      replica_(std::move(model), calls),
      calls_(replica_.calls()) {
  if (!job_->members_change()) {
    const PyReplica::Calls scope(replica_, calls);
    const Unlocked unlocked;
    open();
  }
  job_->add_part(this, [this] { close(); });
}

// Where members change the rank comes to its job here, so that the others do not wait for it before.
void PyLoop::open() {
  loop_.emplace(job_->context(), replica_, options_, hooks(silence_));
  if (tells_rounds_) tell_rounds();
}

void PyLoop::begin(ReplicaObject calls) {
  const Busy busy(*this);
  const PyReplica::Calls scope(replica_, calls);
  const Unlocked unlocked;
  if (!loop_) open();
  loop_->begin();
  if (leaves_) loop_->leave();
}

void PyLoop::leave() {
  leaves_ = true;
  if (loop_) loop_->leave();
}

bool PyLoop::averages_gradients() {
  if (loop_) return loop_->session().recipe().averages_gradients();
  const std::string name = options_.algorithm.substr(0, options_.algorithm.find(':'));
  const RecipeInfo* const recipe = find_recipe(name);
  if (recipe == nullptr) (void)parse_algorithm(options_.algorithm, 1);  // says what there is
  return recipe == nullptr || !moves_own_weights(*recipe);
}

LoopHooks PyLoop::hooks(Duration silence) {
  return {
      .take_counts = [this] { return take_counts(); },
      .counted = [this](const LoopCounts& sum, int ranks) { counted(sum, ranks); },
      .tell_ranks = [this] { return calls_.ask<std::vector<std::uint64_t>>("tell_ranks"); },
      .hear_ranks = [this](const std::vector<std::vector<std::uint64_t>>& words) { calls_.ask("hear_ranks", words); },
      .members =
          [this](const NewMembers& now) { calls_.ask("members", now.rank, now.ranks, now.joined, now.lost, now.left); },
      .describe_state = [this] { return calls_.ask<std::string>("describe_state"); },
      .state = [this] { return calls_.ask_bytes("shared_state"); },
      .take_state = [this](const std::string& state) { calls_.give_bytes("set_shared_state", state); },
      .look = look_for_signals,
      .tell = [this](const std::string& line) { calls_.ask("tell", line); },
      .silence = silence};
}

OwnLoop& PyLoop::loop() {
  if (closed_) {
    throw UsageError("the optimizer is closed: its job is over, or a later one of this process has its parameters");
  }
  if (!loop_) throw UsageError("the optimizer has not begun: expected its first zero_grad(), or step()");
  return *loop_;
}

void PyLoop::make_pool(const PlanOptions& plan) {
  if (pool_ != nullptr) throw UsageError("a second Sampler over one pool: expected one, with all epochs");
  Session& session = loop().session();
  PlanOptions made = plan;
  made.ranks = session.most_ranks();
  made.seed += loop().environment().seed;
  batches_.emplace(job_->context(), session);
  pool_ = batches_->make(made, Sharing::shared);
}

std::optional<Batch> PyLoop::next_batch() {
  (void)loop();
  STRETTO_CHECK(pool_ != nullptr, "no pool has been made");
  pool_->look_again();
  return pool_->next();
}

void PyLoop::tell_rounds() {
  tells_rounds_ = true;
  if (!loop_ && !closed_) return;
  loop().on_round([this](const RoundResult& result) {
    const RoundHeader& header = *result.header;
    calls_.ask("round", loop().rounds_before() + result.round, result.policy.to_string(), header.batches,
               header.samples, header.contributors(), header.num_arrived(), header.max_staleness(result.round));
  });
}

void PyLoop::count(int number) {
  ++counts_.at(static_cast<std::size_t>(number));
}

void PyLoop::counted(const LoopCounts& sum, int ranks) {
  if (sum == LoopCounts{}) return;
  calls_.ask("counted", std::vector<std::int64_t>(sum.begin(), sum.end()), ranks);
}

void PyLoop::close() {
  closed_ = true;
  if (loop_) last_report_ = loop_->report_json();
  pool_.reset();
  batches_.reset();
  loop_.reset();
}

void bind_loop(nb::module_& module) {
  using Lock = nb::call_guard<Unlocked>;
  module.def("algorithms", &algorithm_names, "The names of all algorithms, in the order of --help.");
  module.def(
      "require_algorithm", [](const std::string& name, int ranks) { parse_algorithm(name, ranks); }, "name"_a,
      "ranks"_a, "Raises UsageError for what is no algorithm of so many ranks.");
  module.def(
      "read_imbalance",
      [](const std::string& written, int ranks) { return Imbalance::parse(written, ranks).to_string(); }, "written"_a,
      "ranks"_a, "Which of so many ranks are slow, as STRETTO_IMBALANCE says it. Raises UsageError for another text.");
  module.def(
      "replica_methods", [] { return std::vector<std::string>(kMethods.begin(), kMethods.end()); },
      "The names of what the binding calls of stretto._replica.Replica.");
  nb::class_<PyLoop>(module, "Loop", "One rank's end of an optimizer that the ranks of a job share.")
      .def(
          "__init__",
          [](PyLoop* self, ReplicaObject calls, std::shared_ptr<PyJob> job, const std::vector<Parameter>& parameters,
             const nb::typed<nb::dict, nb::str, nb::any>& options, bool gradients_stay, std::string model,
             std::string optimizer, std::string library, const std::string& capability, int threads) {
            const DistributedOptions made = options_of(options);
            PyModel wrapped = model_of(parameters, made.bucket_bytes, gradients_stay, std::move(model),
                                       std::move(optimizer), std::move(library));
            wrapped.code = {.name = torch_code(capability), .threads = threads};
            wrapped.wide_gradients = nb::cast<bool>(options["wide_gradients"]);
            wrapped.staged = nb::cast<bool>(options["staged"]);
            const Duration silence = from_seconds(nb::cast<double>(options["silence"]));
            new (self) PyLoop(calls, std::move(job), std::move(wrapped), made, silence);
          },
          "calls"_a, "job"_a, "parameters"_a, "options"_a, "gradients_stay"_a, "model"_a, "optimizer"_a, "library"_a,
          "capability"_a, "threads"_a,
          "`parameters`: name, type, elements and whether it is trained, in the model's order. `capability`, "
          "`threads`: "
          "what Torch has chosen for this processor, and how many it computes with.")
      .def_prop_ro(
          "placements",
          [](PyLoop& self) {
            std::vector<std::pair<int, std::uint64_t>> placements;
            for (const Placement& place : self.replica().placements())
              placements.emplace_back(place.bucket, place.offset);
            return placements;
          },
          "Bucket (−1: not trained) and offset in elements of each parameter.")
      .def_prop_ro(
          "trained", [](PyLoop& self) { return self.replica().trained(); },
          "The trained parameters in the order of their memory: indices into the parameters.")
      .def_prop_ro(
          "num_buckets", [](PyLoop& self) { return self.replica().buckets().size(); }, "Buckets of gradients.")
      .def(
          "flat",
          [](const std::shared_ptr<PyLoop>& self, int bucket) { return Memory(self->replica().flat(bucket), self); },
          "bucket"_a, "The parameters of a bucket.")
      .def(
          "forget_flat", [](PyLoop& self) { self.replica().forget_flat(); },
          "What flat() holds is not wanted: its memory goes back to the system.")
      .def(
          "own",
          [](const std::shared_ptr<PyLoop>& self, int bucket) { return Memory(self->replica().own(bucket), self); },
          "bucket"_a, "The gradients of a bucket, in this rank's own memory.")
      .def(
          "set",
          [](const std::shared_ptr<PyLoop>& self, int number, int bucket) {
            return Memory(self->replica().set(number, bucket), self);
          },
          "number"_a, "bucket"_a, "The gradients of a bucket, in a set that all ranks share.")
      .def(
          "used", [](const std::shared_ptr<PyLoop>& self) { return Memory(self->replica().used_flags(), self); },
          "One byte a trained parameter: whether it has a gradient.")
      .def(
          "begin", [](PyLoop& self, ReplicaObject calls) { self.begin(calls); }, "calls"_a,
          "Meets the other ranks; all begin with rank 0's weights and optimizer. Where members of the job change and "
          "others have begun, with theirs.")
      .def(
          "zero_grad",
          [](PyLoop& self, ReplicaObject calls) {
            self.replica().keep_gradients(false);
            self.with_calls(calls, [&](OwnLoop& loop) { loop.begun() ? self.replica().clear() : loop.begin_step(); });
          },
          "calls"_a, "Attaches the memory of the next step's gradients, set to zero.")
      .def(
          "hand_over",
          [](PyLoop& self, ReplicaObject calls) {
            self.with_calls(calls, [&](OwnLoop&) { self.replica().hand_over(); });
          },
          "calls"_a, "In the backward pass: hands over the gradients of the next bucket, which are complete.")
      .def(
          "step",
          [](PyLoop& self, ReplicaObject calls, std::uint64_t samples, std::uint64_t batches) {
            self.replica().keep_gradients(true);
            return self.with_calls(calls, [&](OwnLoop& loop) { return loop.step(samples, batches); });
          },
          "calls"_a, "samples"_a, "batches"_a,
          "Hands over the gradients of so many batches; returns how many rounds were applied.")
      .def(
          "drop",
          [](PyLoop& self, ReplicaObject calls, std::uint64_t batches) {
            self.replica().keep_gradients(true);
            return self.with_calls(calls, [&](OwnLoop& loop) { return loop.pass(batches); });
          },
          "calls"_a, "batches"_a, "Meets the others without these batches; returns how many rounds were applied.")
      .def(
          "make_pool",
          [](PyLoop& self, ReplicaObject calls, std::uint64_t samples, int batch, std::uint64_t epochs,
             std::uint64_t seed, std::vector<std::uint32_t> lengths) {
            PlanOptions plan{.samples = samples, .batch = batch, .epochs = epochs, .seed = seed};
            plan.bucketed = !lengths.empty();
            plan.lengths = std::move(lengths);
            self.with_calls(calls, [&](OwnLoop&) { self.make_pool(plan); });
          },
          "calls"_a, "samples"_a, "batch"_a, "epochs"_a, "seed"_a, "lengths"_a,
          "The job's pool of batches: once, the same on every rank. `lengths`: batches are of samples of similar "
          "length.")
      .def(
          "next_batch",
          [](PyLoop& self, ReplicaObject calls) -> std::optional<std::pair<std::uint64_t, std::vector<std::uint64_t>>> {
            auto batch = self.with_calls(calls, [&](OwnLoop&) { return self.next_batch(); });
            if (!batch) return std::nullopt;
            return std::pair(batch->epoch, std::vector<std::uint64_t>(batch->samples.begin(), batch->samples.end()));
          },
          "calls"_a,
          "The next batch of the pool: its epoch and its samples. None: there is none, unless drain() says that some "
          "may "
          "have come back.")
      .def(
          "drain",
          [](PyLoop& self, ReplicaObject calls) {
            return self.with_calls(calls, [](OwnLoop& loop) { return loop.drain(); });
          },
          "calls"_a,
          "Where members change, on a rank that has no batch: returns after the last round; False: members have "
          "changed, "
          "and batches of those that are lost may have come back.")
      .def("leave", &PyLoop::leave,
           "Where members change: this rank is to leave, by the next call of step and the like.")
      .def(
          "drop_batches", [](PyLoop& self, std::uint64_t batches) { self.loop().drop_batches(batches); }, "batches"_a,
          "So many batches of the pool that were drawn are handed over by no step: they count as used.")
      .def(
          "finish",
          [](PyLoop& self, ReplicaObject calls, bool others_go_on) {
            return self.with_calls(
                calls, [&](OwnLoop& loop) { return loop.finish(others_go_on ? Others::go_on : Others::end); });
          },
          "calls"_a, "others_go_on"_a, "This rank has no more batches; returns when no rank has.")
      .def(
          "meet",
          [](PyLoop& self, ReplicaObject calls) {
            return self.with_calls(calls, [](OwnLoop& loop) {
              loop.meet();
              return !loop.has_parted();
            });
          },
          "calls"_a,
          "Waits until all ranks have called this, or finish(). False: members have changed, and the others have met, "
          "and parted.")
      .def(
          "part", [](PyLoop& self, ReplicaObject calls) { self.with_calls(calls, [](OwnLoop& loop) { loop.part(); }); },
          "calls"_a, "Goes on after meet().")
      .def("tell_rounds", &PyLoop::tell_rounds, "From now on the calls hear of each round that was applied.")
      .def(
          "end", [](PyLoop& self, ReplicaObject calls) { self.with_calls(calls, [](OwnLoop& loop) { loop.end(); }); },
          "calls"_a, "Finishes in time or not at all; raises nothing.")
      .def(
          "abort", [](PyLoop& self, const std::string& reason) { self.loop().abort(reason); }, Lock(), "reason"_a,
          "Stops the job: the reason reaches every rank.")
      .def_prop_ro("busy", &PyLoop::busy, "Whether a call is under way, of another thread or further up in this one.")
      .def("close", &PyLoop::close, Lock(), "Drops everything that needs the job.")
      .def(
          "count", &PyLoop::count, "number"_a,
          "Counts one up: the next deposit brings the count along, and every rank hears what a round's deposits bring.")
      .def(
          "take_counts",
          [](PyLoop& self) {
            const LoopCounts counts = self.take_counts();
            return std::vector<std::int64_t>(counts.begin(), counts.end());
          },
          "What has been counted since the last deposit, which no deposit brings along any more.")
      .def_prop_ro(
          "overlaps", [](PyLoop& self) { return self.options().overlap; },
          "Whether buckets of gradients are handed over in the backward pass.")
      .def_prop_ro("averages_gradients", &PyLoop::averages_gradients,
                   "Whether all ranks move their weights by the same gradients.")
      .def_prop_ro(
          "rounds", [](PyLoop& self) { return self.has_begun() ? self.loop().rounds() : 0; }, "Rounds applied so far.")
      .def_prop_ro(
          "applied", [](PyLoop& self) { return self.has_begun() ? self.loop().applied() : 0; },
          "Batches applied so far.")
      .def_prop_ro(
          "steps", [](PyLoop& self) { return self.has_begun() ? self.loop().steps() : 0; },
          "Steps of this rank so far.")
      .def_prop_ro(
          "ended", [](PyLoop& self) { return self.has_begun() && (self.closed() || self.loop().ended()); },
          "Whether nothing is left to finish.")
      .def_prop_ro(
          "identical", [](PyLoop& self) { return self.loop().identical(); },
          "Whether all replicas were equal to the bit when ranks last compared them.")
      .def_prop_ro(
          "ledger",
          [](PyLoop& self) {
            return self.loop().ledger().to_json([](std::uint64_t word) { return Policy::decode(word).to_string(); });
          },
          "Who was late and what became of all contributions: one JSON object.")
      .def_prop_ro("report", &PyLoop::report,
                   "What this rank knows of all ranks and of its own steps: one JSON object. Also after close().");
}

}  // namespace stretto::python
