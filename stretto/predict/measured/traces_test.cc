#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "stretto/base/words.h"
#include "stretto/observe/trace.h"
#include "stretto/observe/whole_file.h"
#include "stretto/predict/measured/chrome_events.h"
#include "stretto/predict/measured/step_times.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

class Traces : public testing::Test {
 protected:
  Traces() { fs::create_directories(folder_); }
  ~Traces() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name) << content;
    return (folder_ / name).string();
  }
  std::string folder() const { return folder_.string(); }
  std::string refused(const std::string& path) const {
    const auto times = read_step_times(path);
    return times ? "it was read" : times.error().message;
  }

 private:
  const fs::path folder_ = fs::temp_directory_path() / text("stretto-traces-", ::getpid());
};

std::vector<float> step(const StepTimes& times, std::size_t number) {
  const auto step = times.step(number);
  return {step.begin(), step.end()};
}

std::string event(const std::string& name, const std::string& category, double at, double length) {
  return text(R"({"ph": "X", "cat": ")", category, R"(", "name": ")", name, R"(", "pid": 7, "ts": )", at,
              R"(, "dur": )", length, R"(, "args": {"name": "inner", "ts": 1, "shape": [[2, 3], {"dur": 9}]}})");
}

/// A trace as PyTorch's profiler writes it.
std::string kineto(int rank, int ranks, const std::vector<std::string>& events) {
  std::string list;
  for (const std::string& event : events) list += (list.empty() ? "" : ",\n") + event;
  return text(R"({"schemaVersion": 1, "distributedInfo": {"backend": "gloo", "rank": )", rank, R"(, "world_size": )",
              ranks, R"(}, "traceEvents": [)", list, R"(], "displayTimeUnit": "ms"})");
}

std::string profiler_step(int number, double at) {
  return event(text("ProfilerStep#", number), "user_annotation", at, 1);
}

std::string gloo(double at, double length) {
  return event("gloo:all_reduce", "user_annotation", at, length);
}

// Microseconds, two steps after one that has no time. In step 5 rank 1 is late: rank 0 brings two buckets, the second
// while the first is under way, and waits.
std::string on_time(int ranks = 2) {
  return kineto(0, ranks,
                {profiler_step(4, 0), gloo(500, 500), gloo(600, 400), event("aten::add", "cpu_op", 1100, 10),
                 profiler_step(5, 2000), gloo(3000, 5000), gloo(4000, 5000), profiler_step(6, 10000), gloo(12000, 1000),
                 gloo(14000, 1000)});
}
std::string late() {
  return kineto(1, 2,
                {profiler_step(4, 10), gloo(600, 500), gloo(700, 400), profiler_step(5, 2000), gloo(7100, 1000),
                 gloo(8100, 1000), profiler_step(6, 10100), gloo(12100, 1000), gloo(14100, 1000)});
}

TEST_F(Traces, OfPyTorchTellWhatEachRankComputed) {
  write("rank0.json", on_time());
  write("rank1.json", late());
  const StepTimes times = read_step_times(folder()).or_throw();
  EXPECT_EQ(times.ranks(), 2);
  ASSERT_EQ(times.steps(), 2u);
  // Rank 0: from 1 ms to 9 ms, and waits from 4 ms on, when it has begun its last collective. Rank 1: from 1.1 ms to
  // 9.1 ms; its first ends when its second begins.
  EXPECT_THAT(step(times, 0), ElementsAre(0.003f, 0.006f));
  EXPECT_THAT(step(times, 1), ElementsAre(0.004f, 0.004f));
}

TEST_F(Traces, OfPyTorchTellWhatCollectivesTakeWhereNobodyIsLate) {
  write("rank0.json", on_time());
  write("rank1.json", late());
  // Of the two steps with a time rank 1 is last: 2 ms of two collectives in each.
  EXPECT_THAT(read_step_times(folder()).or_throw().exchange(), testing::Optional(testing::DoubleNear(0.002, 1e-9)));
  EXPECT_EQ(read_step_times(write("times.csv", "0,0,1\n0,1,2\n")).or_throw().exchange(), std::nullopt);
}

TEST_F(Traces, OfTheHostGoByTheCall) {
  const auto call = [](double at) { return event("c10d::allreduce_", "cpu_op", at, 10); };
  const auto trace = [&](int rank) {
    return kineto(rank, 2,
                  {profiler_step(1, 0), call(100), gloo(100, 900), profiler_step(2, 1100),  //
                   call(2000), call(2500), gloo(2000, 3000), gloo(5000, 1000)});
  };
  write("a.json", trace(0));
  write("b.json", trace(1));
  // The second waits for a thread until 5 ms. It was called at 2.5 ms: from 1 ms to there the rank computed.
  EXPECT_THAT(step(read_step_times(folder()).or_throw(), 0), ElementsAre(0.0015f, 0.0015f));
}

TEST_F(Traces, OfKernelsGoByTheDevice) {
  const auto trace = [](int rank) {
    const auto kernel = [](double at) { return event("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "kernel", at, 1000); };
    return kineto(
        rank, 2,
        {profiler_step(1, 0), profiler_step(2, 10), event("ProfilerStep#1", "gpu_user_annotation", 5000, 4000),
         event("ProfilerStep#2", "gpu_user_annotation", 9000, 4000), event("nccl:all_reduce", "user_annotation", 3, 1),
         event("nccl:all_reduce", "gpu_user_annotation", 7000, 1000), kernel(7000), kernel(11000)});
  };
  write("a.json", trace(0));
  write("b.json", trace(1));
  EXPECT_THAT(step(read_step_times(folder()).or_throw(), 0), ElementsAre(0.003f, 0.003f));
}

TEST_F(Traces, WithoutStepsGoByForwardPasses) {
  const auto trace = [](int rank) {
    const std::string forward = "DistributedDataParallel.forward";
    return kineto(rank, 2,
                  {event(forward, "user_annotation", 0, 100), gloo(500, 250),  //
                   event(forward, "user_annotation", 1000, 100), gloo(1500, 250)});
  };
  write("a.json", trace(0));
  write("b.json", trace(1));
  const StepTimes times = read_step_times(folder()).or_throw();
  EXPECT_EQ(times.steps(), 1u);
  EXPECT_THAT(step(times, 0), ElementsAre(0.00075f, 0.00075f));
}

TEST_F(Traces, ThatCannotBeUsedAreRefused) {
  const std::string one = write("one.json", on_time());
  EXPECT_THAT(refused(one), HasSubstr("has no trace of rank 1 of 2"));
  write("two.json", on_time());
  EXPECT_THAT(refused(folder()), HasSubstr("is a second trace of rank 0"));
  write("two.json", kineto(1, 2, {profiler_step(4, 0), gloo(1, 1), profiler_step(5, 3), gloo(4, 1)}));
  EXPECT_THAT(refused(folder()), HasSubstr("step 4: rank 0 has 2 collectives and rank 1 has 1"));
  EXPECT_THAT(refused(write("two.json", kineto(0, 1, {profiler_step(4, 0)}))), HasSubstr("has no collectives"));
  EXPECT_THAT(refused(write("two.json", kineto(0, 1, {gloo(1, 1)}))), HasSubstr("has no two steps"));
  EXPECT_THAT(refused(write("two.json", on_time().substr(0, 400))), HasSubstr("is cut off"));
  EXPECT_THAT(refused(write("two.json", "{\"traceEvents\": [}")), HasSubstr("is no JSON: byte"));
  EXPECT_THAT(refused(write("two.json", "{\"a\": 1}")), HasSubstr("is neither a trace"));
  EXPECT_THAT(refused(write("two.json", "{\"traceEvents\": []}")), HasSubstr("does not say its rank"));
  EXPECT_THAT(refused(write("two.json", "{\"workers\": []}")), HasSubstr("is a profile of one worker"));
  EXPECT_THAT(refused(write("two.json", "\x1f\x8b")), HasSubstr("its compressed data ends too early"));
}

TEST_F(Traces, ThatAreCutOffAreReadUpToTheLastStepThatAllHave) {
  const auto trace = [](int rank) {
    std::vector<std::string> events;
    for (int number = 0; number < 4; ++number) {
      events.push_back(profiler_step(number, 1000 * number));
      events.push_back(gloo(1000 * number + 600 + 100 * rank, 300 - 100 * rank));
    }
    return kineto(rank, 2, events);
  };
  const std::string whole = trace(1);
  write("a.json", trace(0));
  write("b.json", whole);
  EXPECT_EQ(read_step_times(folder()).or_throw().steps(), 3u);
  EXPECT_TRUE(read_step_times(folder()).or_throw().notes().empty());
  // In the middle of the last step: it and the one before it are left out, whose events may lie further back.
  write("b.json", whole.substr(0, whole.rfind("ProfilerStep#3") + 20));
  const StepTimes times = read_step_times(folder()).or_throw();
  EXPECT_EQ(times.steps(), 1u);
  EXPECT_THAT(step(times, 0), ElementsAre(0.0007f, 0.0008f));
  EXPECT_THAT(times.notes(), ElementsAre("'" + folder() + "/b.json' is cut off: read up to its last whole event"));
  write("b.json", whole.substr(0, whole.find("ProfilerStep#1") + 20));
  EXPECT_THAT(refused(folder()), HasSubstr("b.json' is cut off, and has no two steps"));
}

TEST_F(Traces, NumbersThatJsonDoesNotHaveAreNone) {
  for (const char* number : {"inf", "-inf", "nan", "-nan", "NaN", "Infinity", "-Infinity"}) {
    const std::string with = R"(, "args": {"name": "a \"inf", "bw": )" + std::string(number) + R"(, "e": -1e-5}})";
    const auto trace = [&](int rank) {
      std::string marked = profiler_step(4, 0);
      marked.replace(marked.size() - 1, 1, with);
      return kineto(rank, 2, {marked, gloo(600, 300), profiler_step(5, 1000), gloo(1600, 300)});
    };
    write("a.json", trace(0));
    write("b.json", trace(1));
    EXPECT_THAT(step(read_step_times(folder()).or_throw(), 0), ElementsAre(0.0007f, 0.0007f)) << number;
    EXPECT_THAT(refused(write("c.txt", R"({"traceEvents": [{"a": )" + std::string(number) + R"(, "b": ]}]})")),
                HasSubstr("byte " + std::to_string(31 + std::string(number).size()) + " does not fit"));
    EXPECT_THAT(refused(write("c.txt", R"({"distributedInfo": {"rank": 0}, "traceEvents": [{"ph": "X", "ts": )" +
                                           std::string(number) + "}]}")),
                HasSubstr("without its time"));
  }
}

TEST_F(Traces, WithTimesThatAreNoneAreRefused) {
  const auto with = [&](const std::string& times) {
    const std::string bad = text(R"({"ph": "X", "cat": "cpu_op", "name": "bad", )", times, "}");
    return refused(write("one.json", kineto(0, 1,
                                            {profiler_step(1, 0), gloo(10, 5), bad, profiler_step(2, 20), gloo(30, 5),
                                             profiler_step(3, 40), gloo(50, 5)})));
  };
  EXPECT_EQ(with(R"("ts": 1, "dur": 1)"), "it was read");
  EXPECT_THAT(with(R"("ts": 1)"), HasSubstr("has the event 'bad' without its length"));
  EXPECT_THAT(with(R"("ts": 1, "dur": null)"), HasSubstr("has the event 'bad' without its length"));
  EXPECT_THAT(with(R"("ts": 1, "dur": -1)"), HasSubstr("has the event 'bad' of -1 us"));
  EXPECT_THAT(with(R"("dur": 1)"), HasSubstr("has the event 'bad' without its time"));
  EXPECT_THAT(with(R"("ts": "1", "dur": 1)"), HasSubstr("has the event 'bad' without its time"));
  EXPECT_THAT(with(R"("ts": 1e300, "dur": 1)"), HasSubstr("has the event 'bad' at 1e+300 us"));
  const std::string late = kineto(0, 1, {profiler_step(1, 0), gloo(10, 5), profiler_step(2, 20), gloo(1e13, 5)});
  EXPECT_THAT(refused(write("one.json", late)), HasSubstr("one.json' step 2 of rank 0 takes 1e+07 s"));
}

TEST_F(Traces, WithUnequalCollectivesInAnyStepAreRefused) {
  // Two collectives in each of the steps 4 to 7, but for one that is left out.
  const auto trace = [](int rank, int without) {
    std::vector<std::string> events;
    for (int step = 4, number = 0; step < 8; ++step) {
      events.push_back(profiler_step(step, 1000.0 * step));
      for (const double at : {1000.0 * step + 100, 1000.0 * step + 200}) {
        if (number++ != without) events.push_back(gloo(at, 50));
      }
    }
    return kineto(rank, 2, events);
  };
  write("a.json", trace(0, -1));
  write("b.json", trace(1, -1));
  EXPECT_EQ(read_step_times(folder()).or_throw().steps(), 3u);
  for (const int without : {0, 1, 3, 5, 6, 7}) {
    const std::string step = text("step ", 4 + without / 2, ": rank 0 has ");
    write("b.json", trace(1, without));
    EXPECT_THAT(refused(folder()), HasSubstr(step + "2 collectives and rank 1 has 1"));
  }
  write("a.json", trace(0, 2));
  EXPECT_THAT(refused(folder()), HasSubstr("step 5: rank 0 has 1 collectives and rank 1 has 2"));
}

TEST_F(Traces, OfWhichOneEndsEarlierAreRefused) {
  const auto trace = [](int rank, int from, int to) {
    std::vector<std::string> events;
    for (int step = from; step < to; ++step) {
      events.push_back(profiler_step(step, 1000.0 * step));
      events.push_back(gloo(1000.0 * step + 100, 50));
    }
    return kineto(rank, 2, events);
  };
  write("a.json", trace(0, 4, 8));
  write("b.json", trace(1, 4, 7));
  EXPECT_THAT(refused(folder()), HasSubstr("step 7: rank 0 has 1 collectives and rank 1 has 0"));
  write("b.json", trace(1, 4, 9));
  EXPECT_THAT(refused(folder()), HasSubstr("step 8: rank 0 has 0 collectives and rank 1 has 1"));
  write("b.json", trace(1, 5, 8));
  EXPECT_THAT(refused(folder()), HasSubstr("step 4: rank 0 has 1 collectives and rank 1 has 0"));
}

TEST_F(Traces, AreReadEventByEvent) {
  const std::string path = write("trace.json", on_time());
  std::vector<std::string> names;
  const auto job = read_chrome_events(path, [&](const ChromeEvent& event) {
    EXPECT_EQ(event.process, 7);
    names.push_back(event.name);
    return std::string(names.size() == 2 ? "is enough" : "");
  });
  EXPECT_THAT(names, ElementsAre("ProfilerStep#4", "gloo:all_reduce"));
  EXPECT_THAT(job.error().message, HasSubstr("trace.json' is enough"));
}

/// A timeline as Horovod writes it: each tensor is a process.
class HorovodTimeline : public Traces {
 protected:
  /// One allreduce of a tensor: when each rank came with it, and when it was over.
  void allreduce(int tensor, const std::vector<int>& came, int end) {
    const int begin = came.empty() ? end - 10 : came.front();
    line(text(R"({"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": )", begin, R"(, "pid": )", tensor, "}"));
    for (std::size_t rank = 0; rank < came.size(); ++rank) {
      line(
          text(R"({"ph": "X", "name": ")", rank, R"(", "ts": )", came[rank], R"(, "pid": )", tensor, R"(, "dur": 0})"));
    }
    line(text(R"({"ph": "E", "ts": )", end - 2, R"(, "pid": )", tensor, "}"));
    line(text(R"({"ph": "B", "name": "ALLREDUCE", "ts": )", end - 2, R"(, "pid": )", tensor, "}"));
    line(text(R"({"ph": "B", "name": "MPI_ALLREDUCE", "ts": )", end - 1, R"(, "pid": )", tensor, "}"));
    line(text(R"({"ph": "E", "ts": )", end, R"(, "pid": )", tensor, "}"));
    line(text(R"({"ph": "E", "ts": )", end, R"(, "pid": )", tensor, R"(, "args": {"dtype": "float32"}})"));
  }
  void line(const std::string& event) { lines_ += (lines_.empty() ? "[\n" : ",\n") + event; }
  std::string timeline(const std::string& end = "]") const { return write("timeline.json", lines_ + end); }

 private:
  std::string lines_;
};

TEST_F(HorovodTimeline, TellsWhenEachRankCame) {
  line(R"({"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "gradient/weight"}})");
  allreduce(1, {100, 200}, 300);
  allreduce(2, {150, 300}, 400);
  line(R"({"ph": "i", "name": "CYCLE_START", "ts": 401, "s": "g"})");
  allreduce(1, {1400, 3400}, 3500);
  allreduce(2, {2400, 4400}, 4500);
  allreduce(1, {5500, 5500}, 5600);
  allreduce(2, {7500, 6500}, 7600);
  const StepTimes times = read_step_times(timeline()).or_throw();
  EXPECT_EQ(times.ranks(), 2);
  ASSERT_EQ(times.steps(), 2u);
  EXPECT_THAT(step(times, 0), ElementsAre(0.002f, 0.004f));
  EXPECT_THAT(step(times, 1), ElementsAre(0.003f, 0.002f));
  EXPECT_EQ(read_step_times(timeline(",\n")).or_throw().steps(), 2u);  // of a version that writes no bracket
}

TEST_F(HorovodTimeline, OfAJobThatWasKilledIsReadUpToItsLastWholeEvent) {
  for (int number = 0; number < 4; ++number) {
    const int at = 10'000 * number;
    allreduce(1, {at + 100, at + 200}, at + 300);
    allreduce(2, {at + 150, at + 300}, at + 400);
  }
  const std::string whole = read_whole_file(timeline()).or_throw();
  EXPECT_EQ(read_step_times(timeline()).or_throw().steps(), 3u);
  const std::string file = folder() + "/timeline.json";
  const auto third = whole.find("20100");  // when the third step begins
  for (std::size_t size = third + 30; size < whole.find("30100") - 50; size += 7) {
    std::ofstream(file, std::ios::trunc) << whole.substr(0, size);
    const StepTimes times = read_step_times(file).or_throw();
    ASSERT_GE(times.steps(), 1u) << size;
    ASSERT_LE(times.steps(), 2u) << size;
    EXPECT_THAT(step(times, 0), ElementsAre(0.00975f, 0.0099f));
    const bool within = whole[size - 1] != '}' && whole[size - 1] != ',' && whole[size - 1] != '\n';
    if (within) {
      EXPECT_THAT(times.notes(), ElementsAre("'" + file + "' is cut off: read up to its last whole event")) << size;
    }
  }
  std::ofstream(file, std::ios::trunc) << whole.substr(0, whole.find("10100"));
  EXPECT_THAT(refused(file), HasSubstr("is cut off, and has no two steps"));
}

TEST_F(HorovodTimeline, OfOneStepIsRefused) {
  allreduce(1, {100}, 300);  // as the broadcasts of one rank, each once
  allreduce(2, {400}, 500);
  EXPECT_THAT(refused(timeline()), HasSubstr("has no two steps in which all ranks have come"));
}

TEST_F(HorovodTimeline, ThatDoesNotTellIsRefused) {
  allreduce(1, {}, 300);
  allreduce(1, {}, 500);
  EXPECT_THAT(refused(timeline()), HasSubstr("HOROVOD_CACHE_CAPACITY=0"));
}

TEST_F(HorovodTimeline, WithoutATimeIsRefused) {
  line(R"({"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": "soon", "pid": 1})");
  EXPECT_THAT(refused(timeline()), HasSubstr("has the event 'NEGOTIATE_ALLREDUCE' without its time"));
}

TEST_F(HorovodTimeline, WithRanksMissingIsRefused) {
  allreduce(1, {100, 200}, 300);
  allreduce(1, {1000}, 1300);
  EXPECT_THAT(refused(timeline()), HasSubstr("step 1: rank 0 came to 1 collectives and rank 1 to 0"));
  EXPECT_THAT(refused(write("empty.json", "[]")), HasSubstr("is a list without events"));
  EXPECT_THAT(refused(write("other.json", R"([{"ph": "X", "name": "a", "ts": 1, "pid": 1, "dur": 1}])")),
              HasSubstr("has no collectives"));
  EXPECT_THAT(refused(write("cut.json", "[{\"ph\": \"B\", ")), HasSubstr("is cut off"));
}

/// A run's own trace has no times of steps that are not in its records, and no other reader takes it for what it reads.
TEST_F(HorovodTimeline, IsNotWhatATraceOfOurTensorsIs) {
  const std::string part = folder() + "/trace-0.jsonl", all = folder() + "/trace.json";
  {
    TraceWriter trace(part, 0, {});
    for (std::uint64_t step = 0; step < 3; ++step) {
      const TimePoint at = TimePoint{} + step * std::chrono::milliseconds(10);
      trace.tensor({.name = "0", .step = step, .submitted = at, .taken = at, .begun = at, .fused = at, .done = at});
    }
  }
  EXPECT_THAT(refused(part), HasSubstr("is no JSON"));
  merge_traces(std::span(&part, 1), all).or_throw();
  EXPECT_THAT(refused(all), HasSubstr("does not say its rank"));
  std::string list = read_whole_file(all).or_throw();
  list = list.substr(list.find('['));
  EXPECT_THAT(refused(write("list.json", list.substr(0, list.rfind(']') + 1))), HasSubstr("has no collectives"));
}

}  // namespace
}  // namespace stretto
