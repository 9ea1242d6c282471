#include "base/unicode/nfc.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/support/random_text.h"

namespace ibid {
namespace {

std::string nfc(std::string_view text) { return std::string(NfcText(text).text()); }

TEST(Nfc, ComposesAndReorders) {
  EXPECT_EQ(nfc("e\u0301"), "\u00E9");
  EXPECT_EQ(nfc("q\u0307\u0323"), "q\u0323\u0307");
  EXPECT_EQ(nfc("\u1E9B\u0323"), "\u1E9B\u0323");
  EXPECT_EQ(nfc("\u0344"), "\u0308\u0301");
  EXPECT_EQ(nfc("\u212B"), "\u00C5");
  EXPECT_EQ(nfc("\u2126x\u00E9"), "\u03A9x\u00E9");
  EXPECT_EQ(nfc("\u0958"), "\u0915\u093C");  // this character is excluded from composition
  EXPECT_EQ(nfc("a\u0338\u0301"), "\u00E1\u0338");
  EXPECT_EQ(nfc("a\u0345\u0300\u0301"), "\u00E0\u0301\u0345");
}

TEST(Nfc, ComposesHangul) {
  EXPECT_EQ(nfc("\u1100\u1161\u11A8"), "\uAC01");
  EXPECT_EQ(nfc("\uAC00\u11A8"), "\uAC01");
  EXPECT_EQ(nfc("\uAC01\u11A8"), "\uAC01\u11A8");
  EXPECT_EQ(nfc("\u1100\u1161\u0301"), "\uAC00\u0301");
}

TEST(Nfc, CharactersNewerThanUnicode9AreUnchanged) {
  EXPECT_EQ(nfc("a\u0301\U0001E4EC\u0323"), "\u00E1\U0001E4EC\u0323");  // class 232 only since Unicode 15: stays
}

TEST(Nfc, InvalidBytesAreUnchanged) {
  EXPECT_EQ(nfc("e\xCC"), "e\xCC");
  EXPECT_EQ(nfc("\x80"
                "e\u0301\xFF\u0301"),
            "\x80\u00E9\xFF\u0301");
}

TEST(Nfc, TextAfterAnInvalidByteIsNormalised) {
  EXPECT_EQ(NfcText("\xC3\uFF11", NormalForm::kKc).text(),
            "\xC3"
            "1");
  EXPECT_EQ(NfcText("\xC3\uFF11", NormalForm::kKd).text(),
            "\xC3"
            "1");
}

TEST(Nfc, FormsDAndKdDecomposeText) {
  EXPECT_EQ(NfcText("\u00E9\uAC01\uFB01", NormalForm::kD).text(), "e\u0301\u1100\u1161\u11A8\uFB01");
  EXPECT_EQ(NfcText("q\u0307\u0323\u2460", NormalForm::kKd).text(),
            "q\u0323\u0307"
            "1");
}

TEST(Nfc, NormalisedTextIsNotCopied) {
  const std::string text = "na\u00EFve \uAC01 text";
  EXPECT_EQ(NfcText(text).text().data(), text.data());
}

TEST(Nfc, PositionsInUnchangedTextMapToTheOriginalText) {
  const std::string raw =
      "ab"
      "e\u0301"
      "cd"
      "\u212B"
      "f";
  const NfcText normal(raw);
  ASSERT_EQ(normal.text(),
            "ab\u00E9"
            "cd\u00C5"
            "f");
  EXPECT_EQ(normal.raw_position(2), 2u);
  EXPECT_EQ(normal.raw_position(3), std::nullopt);
  EXPECT_EQ(normal.raw_position(4), 5u);
  EXPECT_EQ(normal.raw_position(5), 6u);
  EXPECT_EQ(normal.raw_position(7), std::nullopt);
  EXPECT_EQ(normal.raw_position(8), 10u);
  EXPECT_EQ(normal.raw_position(9), 11u);
  EXPECT_EQ(normal.position_of(5), 4u);
  EXPECT_EQ(normal.position_of(3), 4u);
  EXPECT_EQ(normal.position_of(11), 9u);
}

TEST(Nfc, NormalisingTwiceChangesNothingAndAppendedTextKeepsTheStablePrefix) {
  std::mt19937_64 random(test_seed());
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = random_text(random, i % 2 == 0), more = random_text(random, i % 2 == 0);
    ASSERT_EQ(nfc(nfc(text)), nfc(text)) << testing::PrintToString(text);
    const size_t stable = nfc_stable_prefix(text);
    ASSERT_LE(stable, text.size());
    ASSERT_EQ(nfc(text.substr(0, stable)) + nfc(text.substr(stable) + more), nfc(text + more))
        << testing::PrintToString(text) << " + " << testing::PrintToString(more);
  }
}

TEST(Nfkc, CompatibilityCharactersAreReplaced) {
  const auto nfkc = [](std::string_view text) { return std::string(NfcText(text, NormalForm::kKc).text()); };
  EXPECT_EQ(nfkc("a\uFB01b"), "afib");
  EXPECT_EQ(nfkc("\uFF11\u00B2\u00BD"), "121\u20442");
  EXPECT_EQ(nfkc("\uFF76\uFF9E"), "\u30AC");  // a letter and its voiced mark, both half-width
  EXPECT_EQ(nfkc("e\u0301\u00A0\u2126"), "\u00E9 \u03A9");
  EXPECT_EQ(NfcText("a\uFB01b").text(), "a\uFB01b");
}

TEST(Nfkc, NormalisingTwiceChangesNothingAndAppendedTextKeepsTheStablePrefix) {
  const auto nfkc = [](const std::string& text) { return std::string(NfcText(text, NormalForm::kKc).text()); };
  std::mt19937_64 random(test_seed());
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = random_text(random, i % 2 == 0), more = random_text(random, i % 2 == 0);
    ASSERT_EQ(nfkc(nfkc(text)), nfkc(text)) << testing::PrintToString(text);
    const size_t stable = nfc_stable_prefix(text, NormalForm::kKc);
    ASSERT_LE(stable, text.size());
    ASSERT_EQ(nfkc(text.substr(0, stable)) + nfkc(text.substr(stable) + more), nfkc(text + more))
        << testing::PrintToString(text) << " + " << testing::PrintToString(more);
  }
}

}  // namespace
}  // namespace ibid
