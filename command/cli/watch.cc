#include "command/cli/watch.h"

#include <memory>
#include <utility>

#include "command/cli/progress.h"

namespace stretto::command {

RunHooks watched(const std::string& label, std::set<std::string>& told, std::function<double()> predicted) {
  // Shared: a std::function must be copyable, and the bar lives as long as the hook.
  auto bar = std::make_shared<std::unique_ptr<Progress>>();
  RunHooks hooks;
  hooks.progress = [bar, label, &told, predicted = std::move(predicted)](const RunProgress& progress) {
    if (!*bar) *bar = std::make_unique<Progress>(label, "batches", progress.total);
    if (!progress.notice.empty() && told.insert(progress.notice).second) (*bar)->line(progress.notice);
    if (predicted) (*bar)->expect(predicted());
    (*bar)->update(progress.batches);
  };
  return hooks;
}

}  // namespace stretto::command
