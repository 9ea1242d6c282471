#include "apps/terminal/word_wrap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "tests/support/screen_model.h"

namespace ibid {
namespace {

std::string with_returns(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '\n' ? "\r\n" : std::string(1, c);
  return out;
}

// Returns a screen of `width` columns after `text` was streamed in pieces of `n` characters.
ScreenModel shown(const std::string& text, size_t width, size_t n, bool may_erase = true) {
  ScreenModel screen(40, width);
  WordWrap wrap(may_erase);
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    for (size_t k = 0; k < n && end < text.size(); ++k) end += utf8_decode(text, end).length;
    screen.feed(with_returns(wrap.push(text.substr(i, end - i), width)));
    i = end;
  }
  screen.feed(with_returns(wrap.finish()));
  return screen;
}

void expect_shown(const std::string& text, size_t width, const std::string& wanted) {
  for (const bool may_erase : {true, false}) {
    for (const size_t n : {1, 2, 3, 5, 1000}) {
      const ScreenModel screen = shown(text, width, n, may_erase);
      EXPECT_EQ(screen.text(), wanted) << "pieces of " << n << ", erasing: " << may_erase;
      EXPECT_TRUE(screen.unknown().empty());
      EXPECT_TRUE(may_erase || screen.n_sequences() == 0);
    }
  }
}

TEST(WordWrap, BreaksAtBlanksAndDropsBlanksAtLineEnds) {
  expect_shown("The quick brown fox jumps over the lazy dog.", 20, "The quick brown fox\njumps over the lazy\ndog.");
  expect_shown("exactly ten  columns", 10, "exactly\nten\ncolumns");
  expect_shown("1234567890 abc", 10, "1234567890\nabc");
  expect_shown("abc 123456 7890", 10, "abc 123456\n7890");
  expect_shown("line one   \nline two  ", 20, "line one\nline two");
}

TEST(WordWrap, ListItemsHaveHangingIndents) {
  expect_shown("- one two three four\n- five", 12, "- one two\n  three four\n- five");
  expect_shown("1. one two three four", 12, "1. one two\n   three\n   four");
  expect_shown("10) one two three four", 14, "10) one two\n    three four");
  expect_shown("  * one two three four", 14, "  * one two\n    three four");
  expect_shown("* a\n  b c d e f g h", 10, "* a\n  b c d e\n  f g h");
  expect_shown("\u2022 one two three", 10, "\u2022 one two\n  three");
  expect_shown("- \u4e2d\u4e2d\u4e2d\u4e2d\u4e2d", 8, "- \u4e2d\u4e2d\u4e2d\n  \u4e2d\u4e2d");
  expect_shown("**one** two three", 10, "**one**\ntwo three");
  expect_shown("2001 was a year", 10, "2001 was a\nyear");
  expect_shown("-5 is what it is", 10, "-5 is what\nit is");
  expect_shown("      - one two three", 10, "      -\none two\nthree");
  expect_shown("- see https://example.org/a/b/c here", 14, "- see\n  https://exam\nple.org/a/b/c\n  here");
}

TEST(WordWrap, WordLongerThanARowIsWrappedByTheTerminal) {
  expect_shown("see https://example.org/a/b/c here", 12, "see\nhttps://exam\nple.org/a/b/\nc here");
  EXPECT_EQ(shown("abcdefghijklmnopqrst", 10, 3).text(), "abcdefghij\nklmnopqrst");
  EXPECT_EQ(WordWrap(true).push("abcdefghijklmnopqrst", 10), "abcdefghijklmnopqrst") << "so that it is copied whole";
}

TEST(WordWrap, CountsColumnsNotBytesOrCodePoints) {
  const std::string family = "\U0001F469\u200D\U0001F469\u200D\U0001F467";
  expect_shown("na\u00efve re\u0301sume\u0301 caf\u00e9s", 12, "na\u00efve re\u0301sume\u0301\ncaf\u00e9s");
  expect_shown("ab " + family, 9, "ab " + family);
}

// Terminals differ on emoji with skin tones. The words before the emoji must stay on each of them.
TEST(WordWrap, WordsAfterEmojiWrapCorrectlyOnAnyTerminal) {
  const std::string thumb = "\U0001F44D\U0001F3FD";
  for (const bool joins : {true, false}) {
    ScreenModel screen(10, 20, joins);
    WordWrap wrap(true);
    for (const char* piece : {"ab ", thumb.c_str(), " cd efgh", "ijklmnop", " q"}) {
      screen.feed(with_returns(wrap.push(piece, 20)));
    }
    EXPECT_EQ(screen.text(), "ab " + thumb + " cd\nefghijklmnop q") << joins;
  }
}

TEST(WordWrap, ChineseBreaksBetweenCharactersButNotBeforeAFullStop) {
  expect_shown("\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587", 8, "\u4e2d\u6587\u4e2d\u6587\n\u4e2d\u6587");
  expect_shown("\u4e2d\u6587\u4e2d\u6587\u3002\u4e2d", 8, "\u4e2d\u6587\u4e2d\n\u6587\u3002\u4e2d");
  expect_shown("abc \u4e2d\u6587 d", 8, "abc \u4e2d\u6587\nd");
  expect_shown("abc \u4e2d\u6587\u4e2d", 9, "abc \u4e2d\u6587\n\u4e2d");
}

TEST(WordWrap, CodeLinesAreNotWrapped) {
  const std::string code = "```\nint main() { return 0; }\n```\nand now this is text";
  EXPECT_EQ(shown(code, 16, 1).text(), "```\nint main() { ret\nurn 0; }\n```\nand now this is\ntext");
  EXPECT_EQ(WordWrap(true).push(code.substr(0, 28), 16), code.substr(0, 28)) << "no newline is added to a line of code";
  EXPECT_EQ(WordWrap(true).push("    four blanks make code\n", 16), "    four blanks make code\n");
  EXPECT_EQ(WordWrap(true).push("\tso does a tab in front\n", 16), "\tso does a tab in front\n");
  expect_shown("    - but this item is text", 16, "    - but this\n      item is\n      text");
}

TEST(WordWrap, TabsCountAsBlanks) {
  expect_shown("a\tb\tc", 20, "a       b       c");
  expect_shown("a\tbcd", 10, "a\nbcd");
}

TEST(WordWrap, TextAfterAResizeIsWrappedToTheNewWidth) {
  WordWrap wrap(true);
  ScreenModel screen(10, 40);
  screen.feed(with_returns(wrap.push("these words stand in a wide row and", 40)));
  screen.resize(10, 20);
  screen.feed(with_returns(wrap.push(" these in a narrow one", 20)));
  EXPECT_THAT(screen.text(), testing::EndsWith("\nthese in a narrow\none"));
}

std::string without_blanks(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ' && c != '\n' && c != '\t') out += c;
  }
  return out;
}

TEST(WordWrap, RandomTextIsShownCompletelyOnAnyTerminal) {
  const std::vector<std::string> parts = {"word",
                                          "longer-word",
                                          "a",
                                          "na\u00efve",
                                          "\u4e2d",
                                          "\u4e2d\u6587\u3002",
                                          "\U0001F44D\U0001F3FD",
                                          "\u2764\uFE0F",
                                          "\U0001F469\u200D\U0001F469\u200D\U0001F467",
                                          "e\u0301",
                                          "https://example.org/a/long/way/to/go",
                                          " ",
                                          " ",
                                          " ",
                                          " ",
                                          "  ",
                                          "\t",
                                          "\n",
                                          "\n- ",
                                          "\n    code goes here and is long",
                                          "\n```\n"};
  for (unsigned seed = 1; seed <= 300; ++seed) {
    std::mt19937 random(seed);
    std::string text;
    for (int i = 0; i < 60; ++i) text += parts[random() % parts.size()];
    const size_t width = 16 + random() % 30;
    for (const bool may_erase : {true, false}) {
      for (const bool joins : {true, false}) {
        ScreenModel screen(20, width, joins);
        WordWrap wrap(may_erase);
        for (size_t i = 0; i < text.size();) {
          size_t end = i;
          for (size_t k = 1 + random() % 4; k > 0 && end < text.size(); --k) end += utf8_decode(text, end).length;
          screen.feed(with_returns(wrap.push(text.substr(i, end - i), width)));
          i = end;
        }
        screen.feed(with_returns(wrap.finish()));
        ASSERT_EQ(without_blanks(screen.everything()), without_blanks(text))
            << "seed " << seed << ", width " << width << ", erasing " << may_erase << ", joining " << joins << "\n"
            << screen.everything();
        ASSERT_TRUE(screen.unknown().empty());
      }
    }
  }
}

TEST(Wrapped, BreaksLinesAndKeepsTables) {
  EXPECT_EQ(wrapped("short", 20), "short");
  EXPECT_EQ(wrapped("one two three four five", 10), "one two\nthree four\nfive");
  EXPECT_EQ(wrapped("/a    first thing that it does\n/bc   second", 20),
            "/a    first thing\n      that it does\n/bc   second");
  EXPECT_EQ(wrapped("cannot open /a/very/long/path/to/a/file", 20), "cannot open\n/a/very/long/path/to/a/file");
  EXPECT_EQ(wrapped("", 20), "");
  EXPECT_EQ(wrapped("a\n\nb\n", 20), "a\n\nb\n");
}

}  // namespace
}  // namespace ibid
