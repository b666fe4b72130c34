#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "stretto/train/options/distributed_options.h"
#include "stretto/train/options/train_options.h"

namespace stretto {

/// The member of a struct that an option stands in; std::monostate: the struct does not have the option.
template <class Options>
using OptionMember = std::variant<std::monostate, bool Options::*, std::optional<bool> Options::*, int Options::*,
                                  std::uint64_t Options::*, double Options::*, Duration Options::*,
                                  std::string Options::*, ProgressBy Options::*, std::optional<Normalize> Options::*>;

/// An option of TrainOptions, of DistributedOptions or of both. The words of a bool or an enum are those of its values,
/// in their order.
struct JobOption : AlgorithmOption {
  constexpr JobOption(OptionMember<TrainOptions> in_train, OptionMember<DistributedOptions> in_loop,
                      std::string_view under, std::string_view name, std::string_view value, std::string_view help,
                      std::string_view example, Kind kind = Kind::word, double least = 0, double most = 1.8e19,
                      std::span<const std::string_view> words = {})
      : AlgorithmOption{name, value, help, example, kind, least, most, words},
        train(in_train),
        loop(in_loop),
        heading(under) {}

  OptionMember<TrainOptions> train;       ///< its place
  OptionMember<DistributedOptions> loop;  ///< its place
  std::string_view heading;               ///< in the --help of `stretto train`; empty: it is not there

  /// Whether it is true where it is given, without a value.
  bool is_flag() const { return value.empty() && !words.empty(); }
  /// The name in JSON and Python: "max_lag".
  std::string key() const;
  /// The value in TrainOptions or DistributedOptions, as the command line takes it; empty for one that is left open.
  template <class Options>
  std::string value_in(const Options& options) const;
  /// Sets it there, where it has a place. Throws UsageError for a text that does not fit, in which the option is called
  /// `written`: "--max-lag 0: expected a whole number from 1 to 1024, as in --max-lag 4".
  template <class Options>
  void set(Options& options, std::string_view written, const std::string& text) const;
};

/// All of them, in the order of --help. To add one, add its member to the structs and its row to the table.
std::span<const JobOption> job_options();

/// Throws UsageError for a whole number or a word in TrainOptions or DistributedOptions that neither fits its option
/// nor is the default, and for more seats than ranks.
template <class Options>
void check_values(const Options& options, int ranks);

}  // namespace stretto
