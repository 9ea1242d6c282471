#include <tests/support/paths.h>
#include <vector>
#include "base/up.h"
#include "kernels/kernels.h"
#include "sibling.h"
#include "tokenizer/word.h"
