#include "stretto/predict/fine/step_trace.h"

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

namespace stretto {

namespace {

using nlohmann::ordered_json;

constexpr int kDownlinkTrack = 0;
constexpr int kUplinkTrack = 1;
constexpr int kServerTrack = 2;
constexpr int kFirstGpuTrack = 3;

int track_of(const SimulatedOperation& operation) {
  switch (operation.kind) {
    case OperationKind::download: return kDownlinkTrack;
    case OperationKind::upload: return kUplinkTrack;
    case OperationKind::update: return kServerTrack;
    default: return kFirstGpuTrack + operation.gpu;
  }
}

std::string written(const ordered_json& event) {
  return event.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string metadata(const char* what, int process, int track, const std::string& name) {
  return written({{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", track}, {"args", {{"name", name}}}});
}

}  // namespace

StepTrace::StepTrace(const TrainingJob& job, std::string path, int steps)
    : job_(job), steps_(steps), file_(std::move(path)) {
  file_.append(R"({"displayTimeUnit":"ms","traceEvents":[)");
}

void StepTrace::write(std::string event) {
  if (!held_.empty()) file_.append(held_ + ",");
  held_ = std::move(event);
}

void StepTrace::name_tracks(const SimulatedOperation& operation) {
  const int process = operation.host + 1;
  if (!named_.insert(operation.host).second) return;
  const bool one = job_.gpus_per_host == 1;
  write(metadata("process_name", process, 0, text(one ? "worker " : "host ", operation.host)));
  write(metadata("thread_name", process, kDownlinkTrack, "downlink"));
  write(metadata("thread_name", process, kUplinkTrack, job_.mode == Coordination::allreduce ? "allreduce" : "uplink"));
  write(metadata("thread_name", process, kServerTrack, "update"));
  for (int gpu = 0; gpu < job_.gpus_per_host; ++gpu) {
    write(metadata("thread_name", process, kFirstGpuTrack + gpu, one ? "worker" : text("GPU ", gpu)));
  }
}

void StepTrace::add(const SimulatedOperation& operation) {
  if (operation.step >= steps_) return;
  name_tracks(operation);
  const WorkerClass& workers = job_.classes[static_cast<std::size_t>(operation.worker_class)];
  const std::string& layer = workers.steps.front()[static_cast<std::size_t>(operation.layer)].name;
  const char* verb = name_of(operation.kind);
  write(written({{"ph", "X"},
                 {"name", text(layer, ' ', verb)},
                 {"cat", verb},
                 {"pid", operation.host + 1},
                 {"tid", track_of(operation)},
                 {"ts", operation.begin * 1e6},
                 {"dur", (operation.end - operation.begin) * 1e6},
                 {"args", {{"step", operation.step}}}}));
}

Result<void> StepTrace::complete() {
  file_.append(held_ + "]}");
  file_.flush();
  auto complete = file_.complete();
  std::error_code unknown;
  // Half a trace would be no JSON.
  if (!complete && std::filesystem::is_regular_file(file_.path(), unknown))
    std::filesystem::remove(file_.path(), unknown);
  return complete;
}

}  // namespace stretto
