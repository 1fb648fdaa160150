"""Statistics of a data set, and its division into train and eval: `alignkit data`."""
