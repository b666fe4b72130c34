#include "stretto/train/job/files/folder_view.h"

#include <filesystem>
#include <random>
#include <utility>

#include "stretto/base/machine/host_name.h"
#include "stretto/base/words.h"
#include "stretto/observe/whole_file.h"

namespace stretto {
namespace {

constexpr const char* kProbe = ".stretto-probe-";

std::string drawn_digits() {
  std::random_device source;
  return text(source(), source(), source(), source());
}

}  // namespace

FolderView::FolderView(const Members& members, const std::vector<bool>& sees) : FolderView(members.size()) {
  for (int rank = 0; rank < members.size(); ++rank) {
    if (sees[static_cast<std::size_t>(rank)]) continue;
    int keeper = rank;
    for (const int other : keepers_) {
      if (members.host_of(other) == members.host_of(rank)) keeper = other;
    }
    keeper_[static_cast<std::size_t>(rank)] = keeper;
    if (keeper == rank) keepers_.push_back(rank);
  }
}

std::vector<int> FolderView::kept_by(int keeper) const {
  std::vector<int> ranks;
  for (int rank = 0; std::cmp_less(rank, keeper_.size()); ++rank) {
    if (keeper_of(rank) == keeper) ranks.push_back(rank);
  }
  return ranks;
}

// The name is also the content: a file that is cut or empty, as one that another host has not written yet, is not it.
FolderProbe::FolderProbe(const std::string& folder) : folder_(folder), name_(kProbe + drawn_digits()), mine_(true) {
  if (Disk().write(text(folder_, '/', name_), name_) == 0) return;
  Disk().remove(text(folder_, '/', name_));
  name_.clear();
}

FolderProbe FolderProbe::in(const std::string& folder, const std::string& words) {
  FolderProbe probe;
  probe.folder_ = folder;
  probe.name_ = words;
  return probe;
}

FolderProbe::~FolderProbe() {
  if (mine_ && !name_.empty()) Disk().remove(text(folder_, '/', name_));
}

FolderProbe::FolderProbe(FolderProbe&& other) noexcept
    : folder_(std::move(other.folder_)), name_(std::move(other.name_)), mine_(std::exchange(other.mine_, false)) {}

FolderProbe& FolderProbe::operator=(FolderProbe&& other) noexcept {
  std::swap(folder_, other.folder_);
  std::swap(name_, other.name_);
  std::swap(mine_, other.mine_);
  return *this;
}

bool FolderProbe::is_seen() const {
  const auto content = read_whole_file(text(folder_, '/', name_), FileContent::bytes);
  return content && *content == name_;
}

FolderView look_together(Meeting& meeting, Driver& driver, const Members& members, const FolderProbe& probe) {
  if (probe.words().empty()) return FolderView(members.size());
  std::vector<bool> sees;
  for (const auto& rank : meeting.gather(driver, {probe.is_seen() ? 1u : 0u})) sees.push_back(rank[0] != 0);
  sees[0] = true;
  return {members, sees};
}

void require_no_fault(Meeting& meeting, Driver& driver, const Members& members, const std::string& fault) {
  const auto all = meeting.gather(driver, {fault.empty() ? 0u : 1u});
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank][0] == 0) continue;
    const std::string why = meeting.gather_texts(driver, fault)[rank];  // every rank has seen the same
    if (members.hosts() == 1) throw UsageError(why);
    throw UsageError(text("rank ", rank, ", on ", meeting.gather_texts(driver, host_name())[rank], ": ", why));
  }
}

}  // namespace stretto
