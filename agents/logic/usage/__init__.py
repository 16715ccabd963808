"""What containers used: decaying histograms of CPU and of memory peaks, as VPA keeps them, for many containers at once."""
