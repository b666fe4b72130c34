#include "stretto/base/words.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

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

TEST(BytesFromText, ReadsSizes) {
  EXPECT_EQ(bytes_from_text("64"), 64u);
  EXPECT_EQ(bytes_from_text("4KiB"), 4096u);
  EXPECT_EQ(bytes_from_text("4 M"), 4u << 20);
  EXPECT_EQ(bytes_from_text("1.5GiB"), 3u << 29);
  EXPECT_EQ(bytes_from_text("2kB"), 2000u);
  for (const char* wrong : {"", "MiB", "-1", "1.5", "4XiB", "nan", "1e300GiB"}) {
    EXPECT_EQ(bytes_from_text(wrong), std::nullopt) << wrong;
  }
}

const std::vector<std::string> kAlgorithms = {"sync", "eager-solo", "eager-majority", "eager-quorum", "local"};

TEST(EditDistance, CountsInsertedRemovedReplacedAndSwappedLetters) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("sync", "sync"), 0);
  EXPECT_EQ(edit_distance("snyc", "sync"), 1);
  EXPECT_EQ(edit_distance("syn", "sync"), 1);
  EXPECT_EQ(edit_distance("ssync", "sync"), 1);
  EXPECT_EQ(edit_distance("sonc", "sync"), 1);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("", "abc"), 3);
}

TEST(Nearest, FindsAMisspeltWord) {
  EXPECT_EQ(nearest("snyc", kAlgorithms), "sync");
  EXPECT_EQ(nearest("eager-qorum", kAlgorithms), "eager-quorum");
  EXPECT_EQ(nearest("eager_solo", kAlgorithms), "eager-solo");
  EXPECT_EQ(nearest("loc", kAlgorithms), "local");
}

TEST(Nearest, FindsNothingWhereNothingIsNear) {
  EXPECT_EQ(nearest("allreduce", kAlgorithms), "");
  EXPECT_EQ(nearest("", kAlgorithms), "");
  EXPECT_EQ(nearest("fish", std::vector<std::string>{"bash", "zsh"}), "") << "half of its letters are others";
}

TEST(Suggestion, NamesTheNearestAndAllKnown) {
  EXPECT_EQ(suggestion("snyc", kAlgorithms),
            "did you mean sync? Known: sync, eager-solo, eager-majority, eager-quorum, local");
  EXPECT_EQ(suggestion("zzz", kAlgorithms), "Known: sync, eager-solo, eager-majority, eager-quorum, local");
}

std::string letters_of(std::string_view bytes) {
  return base64(std::as_bytes(std::span(bytes)));
}

TEST(Base64, WritesTheExamplesOfItsStandard) {  // RFC 4648, section 10
  EXPECT_EQ(letters_of(""), "");
  EXPECT_EQ(letters_of("f"), "Zg==");
  EXPECT_EQ(letters_of("fo"), "Zm8=");
  EXPECT_EQ(letters_of("foo"), "Zm9v");
  EXPECT_EQ(letters_of("foob"), "Zm9vYg==");
  EXPECT_EQ(letters_of("fooba"), "Zm9vYmE=");
  EXPECT_EQ(letters_of("foobar"), "Zm9vYmFy");
}

TEST(Base64, ReadsWhatItWrites) {
  std::string all;
  for (int i = 0; i < 256; ++i) {
    all += static_cast<char>(255 - i);
    ASSERT_EQ(bytes_of_base64(letters_of(all)), all) << i;
  }
  EXPECT_EQ(bytes_of_base64("Zm9v\nYg=="), "foo") << "up to a letter of another kind";
}

}  // namespace

}  // namespace stretto
