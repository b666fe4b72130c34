#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "stretto/base/error.h"
#include "stretto/base/function_ref.h"
#include "stretto/predict/measured/step_times.h"

namespace stretto {

/// An event of a trace in Chrome's format. What an event does not have is empty, or 0; a time is not a number.
struct ChromeEvent {
  std::string phase;  ///< "X": one that has a length; "B", "E": a begin, an end; "M": says something of the trace
  std::string name;
  std::string category;  ///< "kernel", "user_annotation"
  double at = NAN;       ///< microseconds
  double length = NAN;   ///< microseconds
  std::int64_t process = 0;
};

/// The fault of ChromeEvent::at, as read_chrome_events() takes it; empty where nothing is.
std::string fault_of_time(const ChromeEvent& event);

/// Facts of a trace besides its events: its place in the job, which PyTorch's profiler tells, and how it ends.
struct ChromeJob {
  std::optional<int> rank;
  std::optional<int> ranks;
  bool ended = true;  ///< with the bracket behind its events; false of a program that was killed, and of Horovod's
                      ///< first versions, which never wrote it
  bool cut = false;   ///< within an event, or behind one of an object
};

/// Hands over the events of a trace, in the file's order. A trace is a JSON list of events, or an object whose
/// "traceEvents" is that list. The file is read as a stream, with one event in memory at a time. It may end early, as
/// that of a program that was killed: there are the events until then. NaN, Infinity and inf, as Python and C++ write
/// them, are read as null. Errc::bad_input names the file and says where it is no JSON, or that it ends before its
/// first event, or what `take` has returned, if that is not empty; errors of open_file() besides.
Result<ChromeJob> read_chrome_events(const std::string& path, FunctionRef<std::string(const ChromeEvent&)> take,
                                     const ReadProgress& progress = {});

/// That a trace ends within an event, for a person.
std::string cut_note(const std::string& path);

/// The kind of a file with step times or the like, by its first bytes and its keys.
enum class TraceKind {
  rows,    ///< no JSON: a CSV file
  kineto,  ///< an object with "traceEvents": PyTorch's profiler
  list,    ///< a list of events: a Horovod timeline
  job,     ///< an object with "workers": what stretto profile writes
};

/// Reads as little as it can. Errors as of read_chrome_events(), and for an object that is none of these.
Result<TraceKind> kind_of_trace(const std::string& path);

}  // namespace stretto
