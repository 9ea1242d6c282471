#include "apps/sessions/session_files.h"

#include <gtest/gtest.h>

namespace ibid {
namespace {

TEST(SessionName, LettersOfAnyScriptAndBlanksAreAllowed) {
  for (const char* name : {"talk", "A-1_b", "my talk", "München", "日本語", "v1.2 (draft)", "50%", "-x", "a..b"}) {
    EXPECT_TRUE(check_session_name(name).ok()) << name;
    const std::string file = escape_session_name(name);
    EXPECT_EQ(file.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-%"),
              std::string::npos)
        << file;
    EXPECT_EQ(unescape_session_name(file), name);
  }
  EXPECT_EQ(escape_session_name("talk_1-B"), "talk_1-B") << "names without special characters are unchanged";
  EXPECT_EQ(escape_session_name("my ü"), "my%20%C3%BC");
}

TEST(SessionName, PathsAndInvisibleCharactersAreRefused) {
  const std::string nul("a\0b", 3);
  for (const std::string& name : {std::string(), std::string("../evil"), std::string("a/b"), std::string("a\\b"),
                                  std::string("."), std::string(".."), std::string(".hidden"), std::string(" a"),
                                  std::string("a "), std::string("a\nb"), std::string("a\x1b[2Jb"), std::string("\xff"),
                                  std::string("a\u200bb"), std::string("a\u202eb"), nul, std::string(65, 'a')}) {
    EXPECT_EQ(check_session_name(name).code(), ErrorCode::kInvalidArgument) << name;
  }
  EXPECT_TRUE(check_session_name(std::string(64, 'a')).ok());
  std::string sixty_four_emoji;
  for (int i = 0; i < 64; ++i) sixty_four_emoji += "\U0001F600";
  EXPECT_FALSE(check_session_name(sixty_four_emoji).ok()) << "a name of 768 bytes exceeds the limit of file systems";
}

TEST(SessionName, OnlyCanonicalEscapesAreAccepted) {
  for (const char* file : {"%41", "%2e%2e", "a%2", "a%", "a%zz", "%FF", "", "a b", "a.b", "%2F"}) {
    EXPECT_EQ(unescape_session_name(file), std::nullopt) << file;
  }
}

}  // namespace
}  // namespace ibid
