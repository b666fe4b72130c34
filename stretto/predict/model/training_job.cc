#include "stretto/predict/model/training_job.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include "stretto/base/words.h"

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

namespace {

using nlohmann::json;

constexpr int kMostWorkers = 10'000'000;
constexpr double kLongest = 1e9;   // seconds; sums of such times stay far from where doubles end
constexpr double kLargest = 1e18;  // bytes, bytes per second
constexpr double kShortestTransfer = 1e-15;
constexpr double kAgreement = 1e-6;

/// `where`: "workers[1].layers[3].forward".
[[noreturn]] void refuse(const std::string& where, const std::string& why) {
  throw Failure({Errc::bad_input, where.empty() ? why : text(where, ": ", why)});
}

/// The value for a message, on one line.
std::string shown(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  constexpr std::size_t kMost = 60;
  const std::string all = value.dump(-1, ' ', true, json::error_handler_t::replace);
  return all.size() <= kMost ? all : all.substr(0, kMost) + "…";
}

struct Range {
  double low;
  bool low_included;
  double high;
  const char* expected;
};
constexpr Range kSeconds{0, true, kLongest, "seconds from 0 to 1e9, as in 0.04"};
constexpr Range kBytes{0, true, kLargest, "bytes from 0 to 1e18, as in 4e6"};
constexpr Range kSomeBytes{0, false, kLargest, "bytes, more than 0 and at most 1e18, as in 1e8"};
constexpr Range kRate{0, false, kLargest, "bytes per second, more than 0 and at most 1e18, as in 1.25e9"};
constexpr Range kExamples{0, false, kLargest, "a number of examples, more than 0 and at most 1e18, as in 32"};
constexpr Range kStepRate{0, false, kLargest, "steps per second, more than 0 and at most 1e18, as in 12.5"};
constexpr Range kShare{0, true, 1, "a number from 0 to 1, as in 0.5"};

/// The fields of one object of the input. A field that is null counts as missing.
class Fields {
 public:
  /// `path`: of the object, empty for the whole. Refuses keys that are not `known`.
  Fields(const json& object, std::string path, std::span<const std::string> known)
      : object_(object), path_(std::move(path)) {
    if (!object.is_object()) refuse(path_, text("expected an object, found ", shown(object)));
    for (const auto& [key, value] : object.items()) {
      if (std::find(known.begin(), known.end(), key) == known.end()) {
        refuse(where(key), text("there is no such key; ", suggestion(key, known)));
      }
    }
  }

  std::string where(const std::string& key) const { return path_.empty() ? key : text(path_, ".", key); }

  /// Null where it is missing.
  const json* find(const std::string& key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  std::optional<double> number_if_there(const std::string& key, const Range& range) const {
    const json* value = find(key);
    if (value == nullptr) return std::nullopt;
    const double number = value->is_number() ? value->get<double>() : NAN;
    const bool in_range = (range.low_included ? number >= range.low : number > range.low) && number <= range.high;
    if (!in_range) refuse(where(key), text("expected ", range.expected, "; found ", shown(*value)));
    return number;
  }

  double number(const std::string& key, const Range& range) const {
    const auto number = number_if_there(key, range);
    if (!number) missing(key, range.expected);
    return *number;
  }

  /// At least 1.
  int count(const std::string& key, int fallback, int most = 1'000'000'000) const {
    const json* value = find(key);
    if (value == nullptr) return fallback;
    const double number = value->is_number() ? value->get<double>() : NAN;
    if (!(number >= 1 && number <= most) || number != std::floor(number)) {
      refuse(where(key), text("expected a whole number from 1 to ", most, "; found ", shown(*value)));
    }
    return static_cast<int>(number);
  }

  bool truth(const std::string& key, bool fallback) const {
    const json* value = find(key);
    if (value == nullptr) return fallback;
    if (!value->is_boolean()) refuse(where(key), text("expected true or false; found ", shown(*value)));
    return value->get<bool>();
  }

  template <class T>
  T one_of(const std::string& key, const std::vector<std::pair<std::string, T>>& values, T fallback) const {
    const json* value = find(key);
    if (value == nullptr) return fallback;
    std::vector<std::string> known;
    for (const auto& [name, meaning] : values) {
      if (*value == name) return meaning;
      known.push_back(name);
    }
    refuse(where(key), text("expected one of ", join(known), "; found ", shown(*value)));
  }

  /// A list with at least one element.
  const json& list(const std::string& key, const char* of_what) const {
    const json* value = find(key);
    if (value == nullptr) missing(key, text("a list of ", of_what));
    if (!value->is_array()) refuse(where(key), text("expected a list of ", of_what, "; found ", shown(*value)));
    if (value->empty()) refuse(where(key), text("expected a list of ", of_what, "; it is empty"));
    return *value;
  }

  [[noreturn]] void missing(const std::string& key, const std::string& expected) const {
    refuse(where(key), text("missing; expected ", expected));
  }

 private:
  const json& object_;
  const std::string path_;
};

/// Values with the names that the input has for them.
template <class T, class Value>
std::vector<std::pair<std::string, T>> named(std::initializer_list<Value> values) {
  std::vector<std::pair<std::string, T>> named;
  for (const Value value : values) named.emplace_back(name_of(value), value);
  return named;
}

std::string element(const std::string& list, std::size_t index) {
  return text(list, "[", index, "]");
}

/// The layers of a list by name.
using Names = std::unordered_map<std::string, int>;

Names names_of(const json& layers, const std::string& path) {
  Names names;
  for (const json& layer : layers) {
    const std::string where = element(path, names.size());
    if (!layer.is_object()) refuse(where, text("expected an object, found ", shown(layer)));
    const auto name = layer.find("name");
    if (name == layer.end() || !name->is_string() || name->get_ref<const std::string&>().empty()) {
      refuse(where + ".name", "a layer without a name");
    }
    if (!names.emplace(*name, names.size()).second) refuse(where + ".name", text("a second layer ", shown(*name)));
  }
  return names;
}

/// The index of the layer that `reference` is, by its name or its number in the list.
int layer_of(const json& reference, const std::string& where, const Names& names) {
  if (reference.is_string()) {
    const auto found = names.find(reference);
    if (found != names.end()) return found->second;
    refuse(where, text("there is no layer ", shown(reference)));
  }
  if (reference.is_number_integer() && reference >= 0 && reference < names.size()) return reference.get<int>();
  refuse(where, text("expected the name of a layer, or its number from 0 to ", names.size() - 1, "; found ",
                     shown(reference)));
}

/// Without "after" a layer reads from the one before it in the list.
std::vector<int> layers_before(const Fields& fields, std::size_t index, const Names& names) {
  const json* after = fields.find("after");
  if (after == nullptr) return index == 0 ? std::vector<int>() : std::vector<int>{static_cast<int>(index) - 1};
  if (!after->is_array()) return {layer_of(*after, fields.where("after"), names)};
  std::vector<int> out;
  for (const json& reference : *after) {
    out.push_back(layer_of(reference, element(fields.where("after"), out.size()), names));
  }
  return out;
}

/// `update`: of the job; a layer that says none has its share by bytes.
ProfiledStep read_layers(const json& list, const std::string& path, std::optional<double> update) {
  static const std::vector<std::string> known{"name", "bytes", "forward", "backward", "update", "after"};
  const auto names = names_of(list, path);
  std::vector<Layer> layers;
  double bytes = 0;
  for (const json& value : list) {
    const Fields fields(value, element(path, layers.size()), known);
    layers.push_back({.name = value["name"],
                      .bytes = fields.number("bytes", kBytes),
                      .forward = fields.number("forward", kSeconds),
                      .backward = fields.number("backward", kSeconds),
                      .update = fields.number_if_there("update", kSeconds).value_or(-1),
                      .after = layers_before(fields, layers.size(), names)});
    if (layers.back().update < 0 && !update) fields.missing("update", kSeconds.expected);
    bytes += layers.back().bytes;
  }
  if (bytes == 0) refuse(path, "none of the layers has bytes");
  for (Layer& layer : layers) {
    if (layer.update < 0) layer.update = *update * layer.bytes / bytes;
  }
  auto sorted = in_topological_order(std::move(layers));
  if (!sorted) refuse(path, sorted.error().message);
  return std::move(sorted).value();
}

bool same_layers(const ProfiledStep& a, const ProfiledStep& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Layer& one, const Layer& other) {
    return one.name == other.name && one.bytes == other.bytes && one.after == other.after;
  });
}

/// Mean over the steps of the sum over their layers.
double mean_of(const std::vector<ProfiledStep>& steps, double Layer::*member) {
  double sum = 0;
  for (const ProfiledStep& step : steps) {
    for (const Layer& layer : step) sum += layer.*member;
  }
  return sum / static_cast<double>(steps.size());
}

std::vector<ProfiledStep> read_steps(const Fields& fields, std::optional<double> update) {
  std::vector<ProfiledStep> steps;
  if (fields.find("layers") != nullptr && fields.find("profile") != nullptr) {
    refuse(fields.where("profile"), "expected layers or a profile, not both");
  }
  if (fields.find("layers") != nullptr) {
    steps.push_back(read_layers(fields.list("layers", "layers"), fields.where("layers"), update));
  } else if (fields.find("profile") != nullptr) {
    for (const json& step : fields.list("profile", "steps, each a list of layers")) {
      const std::string where = element(fields.where("profile"), steps.size());
      if (!step.is_array() || step.empty()) refuse(where, "a step without layers");
      steps.push_back(read_layers(step, where, update));
      if (!same_layers(steps.back(), steps.front())) {
        refuse(where, "its layers differ from those of step 0 in names, bytes or what they are after");
      }
    }
  }
  return steps;
}

class JobReader {
 public:
  TrainingJob read(const json& whole) {
    static const std::vector<std::string> known{"model_bytes", "bandwidth",     "update", "rho_threshold", "servers",
                                                "workers",     "link",          "mode",   "overlap",       "steps",
                                                "flow_cap",    "gpus_per_host", "nics",   "units",         "machine",
                                                "measured",    "workload"};
    const Fields fields(whole, "", known);
    require_units(fields);
    update_ = fields.number_if_there("update", kSeconds);
    job_.bandwidth = fields.number("bandwidth", kRate);
    job_.rho_threshold = fields.number_if_there("rho_threshold", kShare).value_or(job_.rho_threshold);
    job_.servers = fields.count("servers", job_.servers);
    job_.link = fields.one_of<std::optional<LinkSharing>>(
        "link", named<std::optional<LinkSharing>>({LinkSharing::equal_shares, LinkSharing::in_order}), job_.link);
    job_.mode = fields.one_of<Coordination>(
        "mode", named<Coordination>({Coordination::asynchronous, Coordination::synchronous, Coordination::allreduce}),
        job_.mode);
    job_.overlap = fields.truth("overlap", job_.overlap);
    job_.steps = fields.count("steps", job_.steps);
    job_.flow_cap = fields.number_if_there("flow_cap", kRate);
    job_.gpus_per_host = fields.count("gpus_per_host", job_.gpus_per_host);
    job_.nics = fields.count("nics", job_.nics);
    for (const json& value : fields.list("workers", "classes of workers")) {
      read_class(value, element("workers", job_.classes.size()));
    }
    if (job_.workers() > kMostWorkers) {
      refuse("workers", text("expected at most ", kMostWorkers, " workers in all; found ", job_.workers()));
    }
    read_model_bytes(fields);
    require_transfer();
    if (fields.find("measured") != nullptr) read_measured(fields.list("measured", "runs"));
    return std::move(job_);
  }

 private:
  static void require_units(const Fields& fields) {
    const json* units = fields.find("units");
    const json expected{{"time", "seconds"}, {"size", "bytes"}};
    if (units != nullptr && *units != expected) {
      refuse("units", text("expected ", expected.dump(), ", for times are in seconds and sizes in bytes"));
    }
  }

  void read_class(const json& value, const std::string& path) {
    static const std::vector<std::string> known{"count", "batch", "forward", "backward", "layers", "profile"};
    const Fields fields(value, path, known);
    WorkerClass workers;
    workers.count = fields.count("count", workers.count, kMostWorkers);
    workers.batch = fields.number("batch", kExamples);
    workers.steps = read_steps(fields, update_);
    if (!workers.steps.empty()) {
      if (const ProfiledStep* first = some_step(); first != nullptr && !same_layers(*first, workers.steps.front())) {
        refuse(path,
               "its layers differ from those of the classes before it in names, bytes or what they are after; "
               "all workers train one model");
      }
    }
    workers.forward = total(fields, "forward", kSeconds, workers.steps, &Layer::forward);
    workers.backward = total(fields, "backward", kSeconds, workers.steps, &Layer::backward);
    if (workers.steps.empty()) {
      if (!update_) refuse("update", text("missing; expected ", kSeconds.expected));
      workers.update = *update_;
    } else {
      workers.update = agreed("update", update_, mean_of(workers.steps, &Layer::update), path);
    }
    if (!with_layers_ && !workers.steps.empty()) with_layers_ = job_.classes.size();
    job_.classes.push_back(std::move(workers));
  }

  void read_model_bytes(const Fields& fields) {
    const ProfiledStep* layers = some_step();
    if (layers == nullptr) {
      job_.model_bytes = fields.number("model_bytes", kSomeBytes);
    } else {
      job_.model_bytes = agreed("model_bytes", fields.number_if_there("model_bytes", kSomeBytes),
                                mean_of({*layers}, &Layer::bytes), "all classes");
    }
  }

  void read_measured(const json& runs) {
    static const std::vector<std::string> known{"workers", "steps_per_s"};
    for (const json& value : runs) {
      const std::string path = element("measured", job_.measured.size());
      const Fields fields(value, path, known);
      job_.measured.push_back({counts_of(fields), fields.number("steps_per_s", kStepRate)});
    }
  }

  /// One number where there is one class, else a list of as many.
  std::vector<int> counts_of(const Fields& run) const {
    const json* workers = run.find("workers");
    const std::size_t classes = job_.classes.size();
    const std::string expected = classes == 1 ? text("a number of workers from 1 to ", kMostWorkers)
                                              : text("a list of ", classes, " numbers of workers, one for each class");
    if (workers == nullptr) run.missing("workers", expected);
    std::vector<int> counts;
    std::int64_t all = 0;
    for (const json& count : workers->is_array() ? *workers : json::array({*workers})) {
      const bool fits = count.is_number_integer() && count >= 0 && count <= kMostWorkers;
      counts.push_back(fits ? count.get<int>() : 0);
      all += fits ? counts.back() : 2 * kMostWorkers;
    }
    if (counts.size() != classes || all < 1 || all > kMostWorkers) {
      refuse(run.where("workers"), text("expected ", expected, "; found ", shown(*workers)));
    }
    return counts;
  }

  void require_transfer() const {
    const auto require = [&](const char* key, double rate) {
      const double seconds = job_.model_bytes / rate;
      if (seconds >= kShortestTransfer && seconds <= kLongest) return;
      refuse(key,
             text("a transfer of the model takes ", seconds, " s; expected ", kShortestTransfer, " to ", kLongest));
    };
    require("bandwidth", job_.bandwidth);
    if (job_.flow_cap) require("flow_cap", std::min(*job_.flow_cap, job_.bandwidth));
  }

  /// What the class says, or its layers.
  double total(const Fields& fields, const std::string& key, const Range& range, const std::vector<ProfiledStep>& steps,
               double Layer::*member) {
    if (steps.empty()) return fields.number(key, range);
    return agreed(fields.where(key), fields.number_if_there(key, range), mean_of(steps, member), "the class");
  }

  /// `said` where it is there, else `summed`; a note where they differ.
  double agreed(const std::string& where, std::optional<double> said, double summed, const std::string& of_what) {
    if (!said) return summed;
    if (std::abs(*said - summed) > kAgreement * std::max(*said, summed)) {
      job_.notes.push_back(text(where, " is ", *said, ", and the layers of ", of_what, " have ", summed,
                                " together: totals go by the former, single layers by the latter"));
    }
    return *said;
  }

  /// Of any class that has layers, or null.
  const ProfiledStep* some_step() const { return with_layers_ ? &job_.classes[*with_layers_].steps.front() : nullptr; }

  TrainingJob job_;
  std::optional<std::size_t> with_layers_;  // the first class that has some
  std::optional<double> update_;
};

/// Refuses a key that stands twice in one object, of which a parser keeps either. A pass by itself: a parser with a
/// callback looks through the list around an object at the end of each.
class SingleKeys final : public json::json_sax_t {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    objects_.emplace_back();
    return true;
  }
  bool key(string_t& key) override {
    if (!objects_.back().insert(key).second) {
      refuse("", text("the key ", shown(key), " stands twice in one object"));
    }
    return true;
  }
  bool end_object() override {
    objects_.pop_back();
    return true;
  }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override { return false; }

 private:
  std::vector<std::set<std::string>> objects_;  // that are open: their keys so far
};

json parsed(std::string_view content) {
  SingleKeys single;
  json::sax_parse(content, &single);  // what is no JSON is said below
  try {
    return json::parse(content);
  } catch (const json::exception& error) {
    refuse("", text("expected JSON: ", json_fault(error)));
  }
}

}  // namespace

Result<TrainingJob> read_job(std::string_view json, const std::string& source) {
  try {
    return JobReader().read(parsed(json));
  } catch (const Failure& failure) {
    return Error{Errc::bad_input, text("'", source, "': ", failure.error().message)};
  }
}

}  // namespace stretto
