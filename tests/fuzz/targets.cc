#include "tests/fuzz/targets.h"

#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "command/bench/timed_allreduce.h"
#include "stretto/base/clock.h"
#include "stretto/collective/allreduce/allreduce_choice.h"
#include "stretto/collective/protocol/policy.h"
#include "stretto/dispenser/position.h"
#include "stretto/imbalance/spec.h"
#include "stretto/imbalance/trace_file.h"
#include "stretto/observe/round_header.h"
#include "stretto/observe/trace.h"
#include "stretto/observe/whole_file.h"
#include "stretto/ordering/negotiation/control_messages.h"
#include "stretto/ordering/topo/set_plan.h"
#include "stretto/ordering/waiting/stall_messages.h"
#include "stretto/predict/coarse/coarse_prediction.h"
#include "stretto/predict/model/training_job.h"
#include "stretto/train/job/summary_json.h"
#include "stretto/transport/hosts/message_stream.h"
#include "stretto/transport/shm.h"
#include "workloads/data_files.h"

namespace stretto::fuzz {
namespace {

std::string bytes_of(const void* at, std::size_t size) {
  return {static_cast<const char*>(at), size};
}

std::span<const std::byte> as_bytes(const std::string& input) {
  return std::as_bytes(std::span(input));
}

std::string written(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::trunc | std::ios::binary) << content;
  return path;
}

// ---- of peers ----

constexpr int kSizes[] = {3, 64, 65, 300, 301};  // of which the last has no times

/// The first byte says how many ranks there are.
Target round_header() {
  Target target{.name = "header of a round"};
  for (std::size_t i = 0; i < std::size(kSizes); ++i) {
    RoundHeader header(kSizes[i]);
    for (int rank = 0; rank < kSizes[i]; rank += 2) {
      header.arrived.insert(rank);
      (rank % 4 == 0 ? header.fresh : header.stale).insert(rank);
      header.times.push_back({.rank = static_cast<std::uint16_t>(rank), .computed = 0.5f, .waited = 0.25f});
    }
    if (i + 1 == std::size(kSizes)) header.forget_all_but(RoundHeader::Names::batches);
    header.batches = 7;
    header.oldest_base = 3;
    std::string input(1 + header.wire_bytes(), '\0');
    input[0] = static_cast<char>(i);
    header.write(reinterpret_cast<std::byte*>(&input[1]));
    target.inputs.push_back(std::move(input));
  }
  target.read = [](const std::string& input) {
    if (input.empty()) return false;
    const int ranks = kSizes[static_cast<unsigned char>(input[0]) % std::size(kSizes)];
    RoundHeader header(ranks), merged(ranks);
    if (!header.read(as_bytes(input).subspan(1), ranks)) return false;
    merged.merge(header);
    return merged.contributors() >= 0;
  };
  return target;
}

/// Two messages, one after the other, as they lie in a ring.
std::string messages() {
  std::string all;
  for (const std::size_t body : {std::size_t{100}, std::size_t{0}}) {
    const std::string head(40, 'h');
    const Envelope envelope{.round = 3, .body_bytes = body, .head_bytes = 40, .channel = 1};
    all += bytes_of(&envelope, sizeof envelope) + head + std::string(body, 'b');
  }
  return all;
}

/// Takes bodies up to a size, and throws larger ones away.
class TakingSink final : public MessageSink {
 public:
  std::byte* begin(int, const Envelope& envelope, std::span<const std::byte> head) override {
    for (const std::byte b : head) sum_ += static_cast<unsigned>(b);
    if (envelope.body_bytes > 4096) return nullptr;
    body_.assign(envelope.body_bytes, std::byte{});
    return body_.data();
  }
  void end(int) override { ++whole; }
  void sent(SendToken) override {}
  void lost(int, const Error&) override { is_lost = true; }

  int whole = 0;
  bool is_lost = false;

 private:
  std::vector<std::byte> body_;
  unsigned sum_ = 0;
};

Target ring_of_a_peer() {
  return {"messages through shared memory", {messages()}, [](const std::string& input) {
            auto memory = JobMemory::create(2).or_throw();
            memory.set_watched();
            ShmTransport transport(memory, 0);
            RingWriter peer(memory.ring_words(1, 0), memory.ring_data(1, 0), memory.ring_bytes());
            peer.write(input.data(), std::min<std::uint64_t>(input.size(), memory.ring_bytes() / 2));
            peer.publish();
            TakingSink sink;
            for (int i = 0; i < 2; ++i) {
              memory.peers_with_data(0)[0].fetch_or(2);
              transport.poll(sink);
            }
            return !sink.is_lost && sink.whole == 2;
          }};
}

Target pieces_of_a_peer() {
  return {"pieces through a library", {messages()}, [](const std::string& input) {
            IncomingMessages in{.peer = 1};
            TakingSink sink;
            auto bytes = as_bytes(input);
            return in.deliver(bytes, sink) && bytes.empty() && sink.whole == 2;
          }};
}

/// The beginning of the memory of a job, which a process finds when it is attached.
Target memory_of_a_job() {
  const auto memory = JobMemory::create(3, 100).or_throw();
  std::string input(4096, '\0');
  if (pread(memory.fd(), input.data(), input.size(), 0) < 0) std::abort();
  return {"memory of a job", {input}, [](const std::string& content) {
            const int fd = memfd_create("fuzz", MFD_CLOEXEC);
            const bool whole = write(fd, content.data(), content.size()) == static_cast<ssize_t>(content.size()) &&
                               ftruncate(fd, 4 << 20) == 0;
            const bool taken = whole && JobMemory::attach(fd).ok();
            close(fd);
            return taken || content.size() == 4096;  // the size of the file is another
          }};
}

/// The first byte says what the rest is.
Target ordering_control() {
  MemberReport report{.ended = true, .words = {1, 2, 3}, .pending = {"a", "b"}, .waits_for = "a"};
  report.requests = {{.name = "a", .count = 3}, {.name = "b", .type = DataType::int64, .count = 5}};
  CoordinatorAnswer answer{.tensors = report.requests, .error = Error{Errc::bad_input, "none"}};
  const ExecutedGraph graph{.num_nodes = 2, .edges = {{0, 1}}, .collectives = {{0, report.requests[0]}}};
  const SetPlan plan{.buffers = {report.requests, {}}};
  Target target{.name = "control messages of an orderer"};
  char kind = 0;
  const StallAnswer stalled{.step = 3, .holds_back = true, .lacks = "a", .waits_for = "b", .waits_in = 1};
  for (const auto& bytes : {report.encode(), answer.encode(), encode_graph(graph), plan.encode(),
                            encode_stall(StallQuestion{.step = 3}), encode_stall(stalled)}) {
    target.inputs.push_back(kind++ + bytes_of(bytes.data(), bytes.size()));
  }
  target.read = [](const std::string& input) {
    if (input.empty()) return false;
    const auto bytes = as_bytes(input).subspan(1);
    switch (input[0]) {
      case 0: return MemberReport::decode(bytes, 0).ok();
      case 1: return CoordinatorAnswer::decode(bytes, 0).ok();
      case 2: {
        const Result<ExecutedGraph> read = decode_graph(bytes, 0);
        if (!read || read->num_nodes > 1000) return read.ok();
        const std::size_t tensors = read->collectives.size();
        const RankGraph of_rank{.rank = 0, .graph = *read};
        return plan_order(union_of(std::span(&of_rank, 1))).tensors.size() == tensors;
      }
      case 3: return SetPlan::decode(bytes, 0).ok();
      default: {
        const Result<StallMessage> read = decode_stall(bytes);
        const auto* said = read ? std::get_if<StallAnswer>(&*read) : nullptr;
        return said == nullptr ? read.ok() : !said->does({}, 0).empty();
      }
    }
  };
  return target;
}

// ---- words ----

Target imbalance() {
  return {"imbalance",
          {"random:ranks=1,delay=200ms", "rotate:50ms..400ms", "linear:1ms..32ms+persistent:rank=3,delay=40ms,factor=3",
           "lognormal:mean=20ms,cv=0.333", "ucf101:scale=0.1", "none"},
          [](const std::string& input) {
            if (input.find("trace") != std::string::npos) return false;  // files have a target of their own
            const Imbalance read = Imbalance::parse(input, 8);
            (void)read.draw(1, 2, 3);
            return !read.to_string().empty();
          }};
}

Target policy() {
  return {"policy",
          {"full", "solo", "majority", "quorum:4", "deadline:4,20ms", "deadline:4,adaptive"},
          [](const std::string& input) {
            std::uint64_t word = 0;
            std::memcpy(&word, input.data(), std::min(input.size(), sizeof word));
            (void)Policy::decode(word).to_string();
            return !Policy::parse(input, 8).to_string().empty();
          }};
}

Target duration() {
  return {"duration", {"200ms", "1.5s", "50us", "300ns", "0"}, [](const std::string& input) {
            return parse_duration(input).has_value();
          }};
}

// ---- files ----

Target trace_of_delays(const std::string& folder) {
  return {"trace of delays",
          {"step,rank,seconds\n1,0,0.25\r\n# slow disk\n\n0, 1, 0.04\n0,0,1e-3 # warm-up\n"},
          [path = folder + "/delays.csv"](const std::string& input) {
            return read_trace_file(written(path, input), 2).ok();
          }};
}

Target costs(const std::string& folder) {
  return {"costs",
          {"# of some machine\n\n" + AllreduceCosts{}.to_text()},
          [path = folder + "/costs.txt"](const std::string& input) {
            const AllreduceChoice choice =
                choose_allreduce({.bytes = 4096, .ranks = 4, .cores = 4}, AllreduceCosts::read(written(path, input)));
            if (choice.why.find("inf") != std::string::npos) std::abort();
            return true;
          }};
}

Target table() {
  return {"data set as CSV", {"1,2.5,-3e2\r\n4,5,6\n", "7\n8\n"}, [](const std::string& input) {
            return parse_csv(input, "fuzz.csv").ok();
          }};
}

Target compressed(const std::string& folder) {
  const std::string path = folder + "/data.gz";
  const gzFile file = gzopen(path.c_str(), "wb");
  gzputs(file, "1,2,3\n4,5,6\n");
  gzclose(file);
  std::ostringstream content;
  content << std::ifstream(path).rdbuf();
  return {"compressed file", {content.str()}, [path](const std::string& input) {
            return read_whole_file(written(path, input)).ok();
          }};
}

Target series() {
  return {"data set as series",
          {"# of speakers\n@problemName Vowels\n@timeStamps false\n@univariate false\n@classLabel true a b\n@data\n"
           "1.5,2,3:4,5,6:a\n7,8:9,10:b\n"},
          [](const std::string& input) { return parse_ts(input, "fuzz.ts").ok(); }};
}

Target measured() {
  return {"measured allreduces",
          {"library,ranks,bytes,repetition,microseconds,background\nstretto,4,1024,0,12.5,0.01\n"
           "stretto,4,1024,1,12.75,nan\nmpi,4,1024,0,14,0\n"},
          [](const std::string& input) {
            command::MeasuredAllreduces read;
            read.add("fuzz.csv", input);
            return !read.medians_csv().empty();
          }};
}

Target job_to_predict() {
  return {"job to predict",
          {R"({"model_bytes": 1e8, "bandwidth": 1.25e9, "update": 0.002, "servers": 2, "overlap": false,
               "workers": [{"count": 3, "forward": 0.03, "backward": 0.06, "batch": 32},
                           {"count": 2, "forward": 0.06, "backward": 0.12, "batch": 16}],
               "measured": [{"workers": [1, 2], "steps_per_s": 9.5}]})",
           R"({"bandwidth": 1e9, "workers": [{"batch": 8, "profile": [[
                {"name": "a", "bytes": 300, "forward": 0.1, "backward": 0.2, "update": 0.1, "after": []},
                {"name": "b", "bytes": 4e6, "forward": 0.2, "backward": 0.3, "update": 0, "after": ["a", 0]}]]}]})"},
          [](const std::string& input) {
            const auto job = read_job(input, "fuzz.json");
            if (!job) return false;
            std::int64_t most = job->workers();
            for (const MeasuredRate& run : job->measured) {
              for (const int count : run.counts) most = std::max<std::int64_t>(most, count);
            }
            if (most > 1000) return true;  // takes its time
            const CoarsePrediction prediction = predict_coarse(*job);
            if (!(prediction.overlap.steps_per_second > 0 && prediction.synchronous.mean > 0)) std::abort();
            return job->measured.empty() || !fit_threshold(std::span(&*job, 1)).runs.empty();
          }};
}

Target position() {
  DispenserPosition position(3);
  position.next = 12;
  position.steps = {3, 4, 5};
  position.returned = {2, 7};
  return {"position of a checkpoint", {to_json(position)}, [](const std::string& input) {
            return position_from_json(input).ok();
          }};
}

Target log_of_a_rank() {
  return {
      "log of a rank", {to_json(RankLog{})}, [](const std::string& input) { return rank_log_from_json(input).ok(); }};
}

Target report_of_a_rank() {
  RankReport whole;
  whole.ordering.emplace();
  whole.totals.emplace();
  whole.evaluations.emplace_back();
  whole.losses.emplace_back();
  return {"report of a rank", {to_json(RankReport{}), to_json(whole)}, [](const std::string& input) {
            return rank_report_from_json(input).ok();
          }};
}

Target parts_of_a_trace(const std::string& folder) {
  return {"part of a trace",
          {"{\"name\":\"compute\",\"ph\":\"X\",\"ts\":1.5,\"dur\":2,\"pid\":0,\"tid\":1},\n{\"a\":1},\n"},
          [folder](const std::string& input) {
            const std::vector<std::string> parts{written(folder + "/part.json", input)};
            return merge_traces(parts, folder + "/trace.json").ok();
          }};
}

}  // namespace

std::vector<Target> targets(const std::string& folder) {
  std::vector<Target> all{round_header(),
                          ring_of_a_peer(),
                          pieces_of_a_peer(),
                          memory_of_a_job(),
                          ordering_control(),
                          imbalance(),
                          policy(),
                          duration(),
                          trace_of_delays(folder),
                          costs(folder),
                          table(),
                          compressed(folder),
                          series(),
                          measured(),
                          job_to_predict(),
                          position(),
                          log_of_a_rank(),
                          report_of_a_rank(),
                          parts_of_a_trace(folder)};
  for (Target& target : targets_between_hosts()) all.push_back(std::move(target));
  return all;
}

Target planted_overflow() {
  return {"planted overflow",
          {std::string("\x08"
                       "12345678")},
          [](const std::string& input) {
            if (input.empty()) return false;
            // Believes a length that a peer has sent.
            std::vector<char> memory(200);
            for (std::size_t i = 0; i < static_cast<unsigned char>(input[0]); ++i) memory.data()[i] = 'x';
            return memory[0] == 'x';
          }};
}

}  // namespace stretto::fuzz
