#include <sstream>

#include "stretto/base/text.h"
#include "stretto/schedule/export.h"
#include "stretto/schedule/print.h"

namespace stretto {

std::string goal_of_rank(int rank, std::span<const ExportNode> nodes) {
  std::ostringstream out;
  out << "\nrank " << rank << " {\n";
  for (const ExportNode& node : nodes) {
    out << 'l' << node.id << ": ";
    if (node.kind == ExportNode::Kind::compute) {
      out << "calc " << node.nanoseconds << '\n';
    } else {
      const bool sends = node.kind == ExportNode::Kind::send;
      out << (sends ? "send " : "recv ") << node.bytes << (sends ? "b to " : "b from ") << node.peer << " tag "
          << node.tag << '\n';
    }
  }
  for (const ExportNode& node : nodes)
    for (const std::uint32_t before : node.after) out << 'l' << node.id << " requires l" << before << '\n';
  out << "}\n";
  return std::move(out).str();
}

std::string to_goal(std::span<const Schedule> schedules, int initiator) {
  const auto ranks = export_of(schedules, initiator);
  std::string out = text("num_ranks ", ranks.size(), '\n');
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) out += goal_of_rank(static_cast<int>(rank), ranks[rank]);
  return out;
}

}  // namespace stretto
