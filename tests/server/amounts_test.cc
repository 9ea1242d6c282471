#include "apps/command_line/command.h"

#include <gtest/gtest.h>

namespace ibid::serve {
namespace {

using std::chrono::milliseconds;

TEST(AmountsTest, ByteAmountsAreParsed) {
  EXPECT_EQ(read_bytes("0"), 0u);
  EXPECT_EQ(read_bytes("512"), 512u);
  EXPECT_EQ(read_bytes("64M"), 64u << 20);
  EXPECT_EQ(read_bytes("8G"), 8ull << 30);
  EXPECT_EQ(read_bytes("8388607T"), 8388607ull << 40);
  for (const char* bad :
       {"", "M", "-1", "+1", "1.5G", "1 G", "1g", "1GB", "8388609T", "99999999999999999999", "0x10"}) {
    EXPECT_FALSE(read_bytes(bad)) << bad;
  }
}

TEST(AmountsTest, TimeAmountsAreParsed) {
  EXPECT_EQ(read_time("30"), milliseconds(30'000));
  EXPECT_EQ(read_time("30s"), milliseconds(30'000));
  EXPECT_EQ(read_time("250ms"), milliseconds(250));
  EXPECT_EQ(read_time("5m"), milliseconds(300'000));
  EXPECT_EQ(read_time("2h"), milliseconds(7'200'000));
  EXPECT_EQ(read_time("0"), milliseconds(0));
  for (const char* bad : {"", "s", "-1", "1.5s", "1 s", "1d", "99999999h", "never", "99999999999999999999"}) {
    EXPECT_FALSE(read_time(bad)) << bad;
  }
}

}  // namespace
}  // namespace ibid::serve
