#include <kernels/kernels.h>
#include "weights/model_file.h"
