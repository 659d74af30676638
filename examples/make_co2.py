"""Exports the monthly carbon dioxide in the air of Mauna Loa to co2.safetensors; run once, needs statsmodels.

Data: C. D. Keeling and T. P. Whorf, Atmospheric CO2 concentrations derived from flask air samples at sites in the SIO
network, Carbon Dioxide Information Analysis Center, Oak Ridge, 2004, in the public domain: weekly means in ppm from
March 1958 to December 2001, as statsmodels ships them. Months are means of their weeks; the five that have none lie on
the line between their neighbours.
"""

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from statsmodels.datasets import co2

BEFORE, AFTER = 36, 12  # months that are known, and that are to be forecast

monthly = co2.load_pandas().data["co2"].resample("MS").mean().interpolate()
ppm = monthly.to_numpy().astype(np.float32)
first = np.arange(len(ppm) - BEFORE - AFTER + 1)
held_out = int(np.argmax(monthly.index >= "1990-01-01")) - BEFORE  # forecasts of 1990 and later; no training row
save_file(
    {
        "before": ppm[first[:, np.newaxis] + np.arange(BEFORE)],
        "after": ppm[first[:, np.newaxis] + np.arange(BEFORE, BEFORE + AFTER)],
        "train": first[: held_out - AFTER + 1],  # ends before what is held out begins
        "test": first[held_out:],
    },
    Path(__file__).with_name("co2.safetensors"),
    metadata={
        "source": "Keeling and Whorf, Atmospheric CO2 from flask air samples in the SIO network, CDIAC, 2004",
        "licence": "public domain",
    },
)
