#include "stretto/base/words/json_fault.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace stretto {
namespace {

template <class Reading>
std::string fault_of(const Reading& reading) {
  try {
    reading();
  } catch (const std::exception& error) {
    return json_fault(error);
  }
  return "none";
}

std::string fault_of_text(const std::string& content) {
  return fault_of([&] { static_cast<void>(nlohmann::json::parse(content).size()); });
}

TEST(JsonFault, SaysWhatIsWrongAndNotWhoFoundIt) {
  const nlohmann::json object = {{"ranks", "two"}}, list = {1};
  EXPECT_EQ(fault_of_text("{]"), "line 1, column 2 is no JSON");
  EXPECT_EQ(fault_of_text("{\"a\":\n 1"), "it ends within its JSON, at line 2, column 3");
  EXPECT_EQ(fault_of_text(""), "it ends within its JSON, at line 1, column 1");
  EXPECT_EQ(fault_of_text("1e999"), "a number is too large");
  EXPECT_EQ(fault_of([&] { (void)object.at("ranks").get<int>(); }), "a value is string; expected number");
  EXPECT_EQ(fault_of([&] { (void)object.at("ranks").get<bool>(); }), "a value is string; expected boolean");
  EXPECT_EQ(fault_of([&] { (void)object.at("workload"); }), "it lacks 'workload'");
  EXPECT_EQ(fault_of([&] { (void)list.at("workload"); }), "a value is array; expected an object");
  EXPECT_EQ(fault_of([&] { (void)list.value("workload", 1); }), "a value is array; expected an object");
  EXPECT_EQ(fault_of([&] { (void)list.at(7); }), "a value is not what is expected there");
}

TEST(JsonFault, LeavesOtherWordsAlone) {
  EXPECT_EQ(fault_of([] { throw std::runtime_error("[x] at() with y"); }), "[x] at() with y");
}

}  // namespace
}  // namespace stretto
