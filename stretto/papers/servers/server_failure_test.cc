#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "stretto/collective/testing/every_collective.h"
#include "stretto/papers/servers/parameter_server.h"

namespace stretto {
namespace {

/// One step of a sync parameter server.
WaitingCollective server(Engine& engine) {
  struct Step {
    explicit Step(Engine& engine)
        : server(engine, {{DataType::int32, 100}}, {},
                 [](int, std::span<std::byte>, std::span<const std::byte>, std::span<std::byte>, int) {}) {}
    Result<void> run(Driver& driver, TimePoint by) {
      const auto bytes = std::as_writable_bytes(std::span(value));
      const std::span<const std::byte> first = bytes;
      if (!server.begun()) {
        server.begin({&first, 1});
        server.push(0, std::as_writable_bytes(std::span(gradient)), bytes);
      }
      return server.wait(driver, by);
    }
    std::vector<std::int32_t> value = std::vector<std::int32_t>(100), gradient = value;
    ParameterServer server;
  };
  auto step = std::make_shared<Step>(engine);
  struct Made final : Collective {
    explicit Made(std::shared_ptr<Step> step) : step(std::move(step)) {}
    void abort(Driver& driver, const Error& why) override { step->server.abort(driver, why); }
    std::optional<Error> failure() const override { return step->server.failure(); }
    std::string who_is_missing(Driver& driver, Duration timeout) override {
      return step->server.who_is_missing(driver, timeout);
    }
    std::shared_ptr<Step> step;
  };
  return {std::make_unique<Made>(step), [&step = *step](Driver& driver, TimePoint by) { return step.run(driver, by); }};
}

INSTANTIATE_TEST_SUITE_P(All, EveryCollective, testing::Values(CollectiveKind{"ParameterServer", server}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace stretto
