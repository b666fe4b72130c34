#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stretto {

/// The edges of an undirected graph of ranks; each once, the lower rank first, ascending.
using Edges = std::vector<std::pair<int, int>>;

/// Reads a graph: one edge a line, two ranks with blanks between them; empty lines, and what follows a `#`, count for
/// nothing. `name` is the file's, for messages. Throws UsageError, with the number of the line, where one is no edge
/// between two different ranks below `ranks`, or the edge of an earlier line; and with the ranks that cannot be reached
/// from rank 0, where the graph is not connected.
Edges parse_edges(std::string_view content, const std::string& name, int ranks);

/// The same from a file. Throws UsageError where it cannot be read, too.
Edges read_edges(const std::string& path, int ranks);

}  // namespace stretto
