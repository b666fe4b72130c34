#pragma once

#include <functional>
#include <string>
#include <utility>

#include "stretto/membership/hosts/bulletin.h"

namespace stretto {

/// The bulletin of the members of a view: the first of them leaves its words with the master, which tells the others.
class ViewBulletin final : public Bulletin {
 public:
  ViewBulletin(int rank, int ranks, std::function<void(const std::string& words)> publish,
               std::function<std::string()> look_up)
      : rank_(rank), ranks_(ranks), publish_(std::move(publish)), look_up_(std::move(look_up)) {}
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  Result<void> publish(const std::string& words) override {
    publish_(words);
    return {};
  }
  Result<std::string> look_up() override { return look_up_(); }

 private:
  const int rank_, ranks_;
  const std::function<void(const std::string& words)> publish_;
  const std::function<std::string()> look_up_;
};

}  // namespace stretto
