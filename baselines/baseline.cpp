#include "baselines/baseline.h"
