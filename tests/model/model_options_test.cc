#include "model/config/model_options.h"

#include <gtest/gtest.h>

namespace ibid {
namespace {

TEST(ModelOptionsTest, RowsPerPassDependOnTheSecondLevelCache) {
  EXPECT_EQ(rows_for_cache(1 << 20), 256u);
  EXPECT_EQ(rows_for_cache(2 << 20), 512u);
  EXPECT_EQ(rows_for_cache(5 << 18), 320u);
  EXPECT_EQ(rows_for_cache(256 << 10), 128u) << "few rows would read the weights too often";
  EXPECT_EQ(rows_for_cache(64 << 20), 512u);
  EXPECT_EQ(rows_for_cache(0), 256u) << "unknown";
  EXPECT_EQ(ModelOptions{}.max_chunk, default_max_chunk());
}

}  // namespace
}  // namespace ibid
