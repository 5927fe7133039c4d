"""From a description to arrays on a grid: fields, wavelets, records, designs."""
