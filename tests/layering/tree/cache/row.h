#include <vector>
#include "base/up.h"
#include "tokenizer/word.h"
  #  include "sibling.h"
#include <tests/support/paths.h>
#include "kernels/kernels.h"
