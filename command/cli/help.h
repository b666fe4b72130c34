#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stretto::command {

/// A thing with a name, and what --help says about it: an option, a positional argument, an example, a term.
struct HelpEntry {
  std::string name;                    ///< "--ranks", "WORKLOAD"
  std::string value{};                 ///< of an option, as it is shown: "N"; FILE, DIR and PROGRAM are names of these
  std::string text{};                  ///< its meaning
  std::vector<std::string> known{};    ///< values, or the beginnings of values, where there is a list of them
  bool value_may_be_left_out = false;  ///< "--json[=FILE]": the value stands behind "=", or there is none
  bool may_be_left_out = false;        ///< of a positional argument: "[NAME]"
  bool several = false;                ///< of a positional argument: "FILE..."

  /// "--ranks N", "--json[=FILE]", "FILE".
  std::string shown() const;
  friend bool operator==(const HelpEntry&, const HelpEntry&) = default;
};

struct HelpSection {
  std::string title;
  std::vector<HelpEntry> entries{};
  friend bool operator==(const HelpSection&, const HelpSection&) = default;
};

/// All that is known about one command before it runs. --help, the man page and completion are made of it, and nothing
/// else: what stands in one of them stands in all.
struct Help {
  std::string name;     ///< as it is typed: "stretto train"
  std::string summary;  ///< the first sentence
  std::vector<HelpEntry> positionals{};
  std::vector<HelpEntry> commands{};   ///< of a group
  std::vector<HelpSection> options{};  ///< under their headings
  std::vector<HelpSection> topics{};   ///< things with names that are no options: "Algorithms"
  std::vector<HelpEntry> examples{};   ///< `name` is a line to type
  std::vector<std::string> notes{};    ///< paragraphs
  std::string rest{};                  ///< what follows "--", where anything may: "ARGUMENTS"
  bool rest_may_be_left_out = true;

  /// "stretto train WORKLOAD [OPTIONS]".
  std::string usage() const;
  /// nullptr where there is no such option.
  const HelpEntry* option(std::string_view name) const;
  std::vector<std::string> option_names() const;

  std::string to_text() const;
  /// The text of -h: the names of the options, and one example.
  std::string to_short_text() const;
};

/// `text` in lines of at most `width`, each line but the first behind `indent` spaces.
std::string wrap(const std::string& text, std::size_t indent, std::size_t width);

}  // namespace stretto::command
