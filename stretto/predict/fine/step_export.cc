#include "stretto/predict/fine/step_export.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>

#include "stretto/base/error.h"

namespace stretto {
namespace {

using Kind = ExportNode::Kind;

std::uint64_t whole(double value) {
  return static_cast<std::uint64_t>(std::llround(value));
}

std::uint64_t nanoseconds(double seconds) {
  return whole(seconds * 1e9);
}

std::uint64_t bytes_of_message(double bytes) {
  return std::max<std::uint64_t>(1, whole(bytes));
}

void append(std::vector<std::uint32_t>& to, const std::vector<std::uint32_t>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

bool is_transfer(const StepOperation& operation) {
  return operation.kind == OperationKind::download || operation.kind == OperationKind::upload;
}

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

/// The nodes of one rank, numbered as they come.
class StepExport::Nodes {
 public:
  std::uint32_t add(ExportNode node, Ids after) {
    node.id = static_cast<std::uint32_t>(nodes_.size());
    std::ranges::sort(after);
    after.erase(std::unique(after.begin(), after.end()), after.end());
    node.after = std::move(after);
    nodes_.push_back(std::move(node));
    return nodes_.back().id;
  }
  std::vector<ExportNode> take() && { return std::move(nodes_); }

 private:
  std::vector<ExportNode> nodes_;
};

StepExport::StepExport(const TrainingJob& job, const StepExportOptions& options)
    : job_(job),
      options_(options),
      plans_(plan_hosts(job, options.buckets)),
      servers_(job.mode == Coordination::allreduce ? 0 : job.servers) {
  for (const HostPlan& plan : plans_.plans) {
    const auto operations = plan.graph().operations();
    Shape shape{.predecessors = std::vector<Ids>(operations.size())};
    for (std::uint32_t index = 0; index < operations.size(); ++index) {
      for (const std::uint32_t successor : plan.graph().successors(operations[index]))
        shape.predecessors[successor].push_back(index);
      shape.transfer.push_back(shape.transfers);
      if (is_transfer(operations[index])) ++shape.transfers;
    }
    shapes_.push_back(std::move(shape));
  }
  for (int host = 0; host < hosts(); ++host) {
    first_tag_.push_back(tags_);
    tags_ += shape(host).transfers * messages_of_transfer();
  }
  if (job.gpus_per_host > 1) {
    throw UsageError(
        text("other simulators have a rank compute one thing at a time; expected a job with gpus_per_host 1, not ",
             job.gpus_per_host));
  }
  if (tags_ > kMostTags / static_cast<std::uint64_t>(options.steps)) {
    throw UsageError(text(options_.steps, " steps of ", hosts(), " workers have more than ", kMostTags,
                          " messages, each of which needs a tag of its own; fewer steps have fewer"));
  }
}

std::uint64_t StepExport::messages_of_transfer() const {
  if (servers_ > 0) return 1;
  return options_.ring ? 2 * static_cast<std::uint64_t>(hosts() - 1) : 0;
}

const HostPlan& StepExport::plan(int host) const {
  return plans_.plans[static_cast<std::size_t>(plans_.of_host[static_cast<std::size_t>(host)])];
}

const StepExport::Shape& StepExport::shape(int host) const {
  return shapes_[static_cast<std::size_t>(plans_.of_host[static_cast<std::size_t>(host)])];
}

std::string StepExport::name_of(int step, int host, const StepOperation& operation) const {
  const WorkerClass& workers = job_.classes[static_cast<std::size_t>(plan(host).worker_class())];
  return text("step ", step, ", worker ", host, ": ",
              workers.steps.front()[static_cast<std::size_t>(operation.layer)].name, ' ',
              stretto::name_of(operation.kind));
}

std::uint32_t StepExport::tag_of(int step, int host, std::size_t operation) const {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(step) * tags_ +
                                    first_tag_[static_cast<std::size_t>(host)] +
                                    shape(host).transfer[operation] * messages_of_transfer());
}

ExportNode StepExport::computation_of(int step, int host, const StepOperation& operation,
                                      const DrawnSteps& drawn) const {
  return {.name = name_of(step, host, operation),
          .nanoseconds = nanoseconds(plan(host).seconds(operation, drawn.of(0)))};
}

/// Between a host and a server, as far as both ends are alike.
ExportNode StepExport::transfer_of(int step, int host, std::size_t index) const {
  const StepOperation& operation = plan(host).graph().operations()[index];
  return {.name = name_of(step, host, operation),
          .bytes = bytes_of_message(plan(host).bytes(operation)),
          .tag = tag_of(step, host, index)};
}

std::vector<ExportNode> StepExport::rank(int rank) const {
  return rank < hosts() ? host(rank) : server(rank - hosts());
}

StepExport::Ids StepExport::summed(Nodes& nodes, int step, int host, std::size_t index, const Ids& after) const {
  const StepOperation& operation = plan(host).graph().operations()[index];
  const double bytes = plan(host).bytes(operation);
  if (!options_.ring) {
    return {nodes.add(
        {.kind = Kind::allreduce, .name = name_of(step, host, operation), .bytes = bytes_of_message(bytes)}, after)};
  }
  // Round after round each host hands the part on that it has received in the round before.
  const int right = (host + 1) % hosts(), left = (host + hosts() - 1) % hosts();
  Ids ready = after;
  for (int round = 0; round < 2 * (hosts() - 1); ++round) {
    ExportNode message{.name = text(name_of(step, host, operation), ", round ", round),
                       .bytes = bytes_of_message(bytes / hosts())};
    message.kind = Kind::send;
    message.peer = right;
    message.tag = tag_of(step, host, index) + static_cast<std::uint32_t>(round);
    const std::uint32_t sent = nodes.add(message, ready);
    message.kind = Kind::recv;
    message.peer = left;
    message.tag = tag_of(step, left, index) + static_cast<std::uint32_t>(round);
    ready = {sent, nodes.add(message, ready)};
  }
  return ready;
}

std::vector<ExportNode> StepExport::host(int host) const {
  Nodes nodes;
  const StepGraph& graph = plan(host).graph();
  const auto operations = graph.operations();
  const auto is_here = [&](std::uint32_t index) {
    return servers_ == 0 || operations[index].kind != OperationKind::update;
  };
  DrawnSteps drawn(plan(host), host, options_.seed);
  Ids begin;  // what a step waits for
  for (int step = 0; step < options_.steps; ++step) {
    drawn.next();
    std::vector<Ids> over(operations.size());                       // the nodes with which an operation is over
    std::vector<Ids> received(static_cast<std::size_t>(servers_));  // the last one of each server: they come in order
    Ids ends = begin;
    for (std::uint32_t index = 0; index < operations.size(); ++index) {
      if (!is_here(index)) continue;
      const StepOperation& operation = operations[index];
      Ids after;
      for (const std::uint32_t before : shape(host).predecessors[index]) append(after, over[before]);
      if (after.empty()) after = begin;
      if (!is_transfer(operation)) {
        over[index] = {nodes.add(computation_of(step, host, operation, drawn), after)};
      } else if (servers_ == 0) {
        over[index] = summed(nodes, step, host, index, after);
      } else {
        ExportNode transfer = transfer_of(step, host, index);
        transfer.peer = hosts() + operation.shard;
        transfer.kind = operation.kind == OperationKind::download ? Kind::recv : Kind::send;
        Ids& last = received[static_cast<std::size_t>(operation.shard)];
        if (transfer.kind == Kind::recv) append(after, last);
        over[index] = {nodes.add(transfer, after)};
        if (transfer.kind == Kind::recv) last = over[index];
      }
      if (std::ranges::none_of(graph.successors(operation), is_here)) append(ends, over[index]);
    }
    begin = {nodes.add({.name = text("step ", step, " of worker ", host, " is over")}, ends)};
  }
  return std::move(nodes).take();
}

std::vector<ExportNode> StepExport::server(int server) const {
  Nodes nodes;
  std::vector<DrawnSteps> drawn;
  for (int host = 0; host < hosts(); ++host) drawn.emplace_back(plan(host), host, options_.seed);
  std::vector<Ids> begin(static_cast<std::size_t>(hosts()));  // what a step of a host waits for
  for (int step = 0; step < options_.steps; ++step) {
    Ids of_all;
    for (int host = 0; host < hosts(); ++host) {
      const auto at = static_cast<std::size_t>(host);
      drawn[at].next();
      const Ids ends = serve(nodes, step, host, server, begin[at], drawn[at]);
      append(of_all, ends);
      if (job_.mode == Coordination::asynchronous) {
        begin[at] = {nodes.add({.name = text("step ", step, " of worker ", host, " is applied")}, ends)};
      }
    }
    if (job_.mode == Coordination::asynchronous) continue;
    std::ranges::fill(begin, Ids{nodes.add({.name = text("step ", step, " is applied")}, of_all)});
  }
  return std::move(nodes).take();
}

StepExport::Ids StepExport::serve(Nodes& nodes, int step, int host, int server, const Ids& begin,
                                  const DrawnSteps& drawn) const {
  const auto operations = plan(host).graph().operations();
  std::vector<Ids> over(operations.size());
  Ids sent = begin, received = begin;  // the last one: transfers of a host follow each other
  Ids updates;
  for (std::uint32_t index = 0; index < operations.size(); ++index) {
    const StepOperation& operation = operations[index];
    const bool computes = operation.kind == OperationKind::forward || operation.kind == OperationKind::backward;
    if (computes || operation.shard != server) continue;
    if (is_transfer(operation)) {
      ExportNode transfer = transfer_of(step, host, index);
      transfer.peer = host;
      transfer.kind = operation.kind == OperationKind::download ? Kind::send : Kind::recv;
      Ids& last = transfer.kind == Kind::send ? sent : received;
      over[index] = last = {nodes.add(transfer, last)};
      continue;
    }
    Ids after;
    for (const std::uint32_t before : shape(host).predecessors[index]) append(after, over[before]);
    // A layer without bytes is applied behind the gradients that have come before.
    updates.push_back(nodes.add(computation_of(step, host, operation, drawn), after.empty() ? received : after));
  }
  append(updates, sent);
  append(updates, received);
  return updates;
}

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
